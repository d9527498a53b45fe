//! Compares plants, search index, counts, digest and events with each other.
//!
//! Memory is bounded by the number of kept events.

use std::cell::Cell;
use std::collections::HashMap;
use std::num::Wrapping;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::PlantId;

use super::errors::is_about_content;
use super::findings::Findings;
use crate::EventKind;
use crate::record::PlantRecord;
use crate::sled::commit::change::{Digest, EventRecord, Totals, digest};
use crate::sled::compaction::merge::Merge;
use crate::sled::keys;
use crate::sled::search::builder::{IndexBuilder, IndexEntries};
use crate::sled::tables::{BlockCursor, Entries, Level, Map, Table};

/// Compares all data of these levels, the newest first, with each other, with the search indexes of these tables, and with
/// what they should add up to, if that is known. Returns the numbers of plants and of events. Calls `progress` with the share
/// that is done, from 0 to 1.
pub(crate) fn verify(
    levels: &[Arc<dyn Level>],
    tables: &[Arc<Table>],
    totals: Option<&Totals>,
    findings: &mut Findings,
    progress: &dyn Fn(f64),
) -> anyhow::Result<(u64, u64)> {
    let stored_from = totals.map_or(1, |totals| totals.stored_from);
    let progress = Progress::of(tables, totals, progress);
    let mut verifier = Verifier { levels, stored_from, findings, progress: &progress };
    let (events, last_events) = verifier.read_events(totals)?;
    let (plants, of_plants) = verifier.check_plants(totals, last_events)?;
    // Without the manifest, the inputs of a merge may be there beside its result, and count twice.
    if totals.is_some() && verifier.digest_of_counts()?.is_some_and(|it| it != of_plants) {
        findings.add("the counts of the tags do not match the plants")?;
    }
    for table in tables {
        findings.value_of(table.check(&|| Ok(())))?;
        check_index(table, findings, &progress)?;
    }
    Ok((plants, events))
}

/// The number of plants, and the sum of their digests.
pub(crate) fn count_and_digest(tables: &[Arc<Table>]) -> anyhow::Result<(u64, Digest)> {
    let (mut plants, mut of_plants) = (0, Digest::default());
    let mut entries = Merge::new(tables, Map::Plants, &[]);
    while let Some((key, record)) = entries.next()? {
        let Some(record) = record else { continue };
        plants += 1;
        of_plants += digest(keys::plant_of(key)?, record);
    }
    Ok((plants, of_plants))
}

struct Verifier<'a> {
    levels: &'a [Arc<dyn Level>],
    stored_from: u64,
    findings: &'a mut Findings,
    progress: &'a Progress<'a>,
}

/// How many entries of plants have been compared: each with its events, and with the search index.
struct Progress<'a> {
    all: u64,
    compared: Cell<u64>,
    report: &'a dyn Fn(f64),
}

impl<'a> Progress<'a> {
    /// How many entries are compared between two reports.
    const INTERVAL: u64 = 4096;

    fn of(tables: &[Arc<Table>], totals: Option<&Totals>, report: &'a dyn Fn(f64)) -> Self {
        let of_tables: u64 = tables.iter().map(|table| table.summary.plant_entries).sum();
        let plants = totals.map_or(of_tables, |totals| totals.plants);
        Self { all: of_tables + plants, compared: Cell::new(0), report }
    }

    fn one_more(&self) {
        let compared = self.compared.get() + 1;
        self.compared.set(compared);
        if compared.is_multiple_of(Self::INTERVAL) {
            (self.report)((compared as f64 / self.all as f64).min(1.0));
        }
    }
}

/// The last kept event of each plant, and its sequence number.
type LastEvents = HashMap<PlantId, (u64, EventKind)>;

impl Verifier<'_> {
    /// Calls `visit` with every entry of a map from a key on. An unreadable page is a finding.
    fn visit(
        &mut self,
        map: Map,
        from: &[u8],
        mut visit: impl FnMut(&[u8], &[u8], &mut Findings) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut entries = Merge::of_levels(self.levels, map, from);
        loop {
            let entry = match entries.next() {
                Ok(Some((key, Some(value)))) => visit(key, value, self.findings),
                Ok(Some((_, None))) => continue,
                Ok(None) => return Ok(()),
                Err(error) => Err(error),
            };
            self.findings.value_of(entry)?;
        }
    }

    /// Checks that the events have no gap, and that each can follow the one before it of the same plant. Returns the
    /// number of events.
    fn read_events(&mut self, totals: Option<&Totals>) -> anyhow::Result<(u64, LastEvents)> {
        let (stored_from, mut next) = (self.stored_from, self.stored_from);
        let mut events = 0;
        let mut last_events = LastEvents::new();
        self.visit(Map::Events, &keys::event_key(stored_from), |key, value, findings| {
            let sequence = keys::event_of(key)?;
            if sequence > next {
                let last = sequence - 1;
                findings.add(format_args!("the events from {next} to {last} are missing"))?;
            }
            next = sequence + 1;
            events += 1;
            let EventRecord { kind, id, .. } = EventRecord::decode(value)?;
            let id = PlantId::from(id);
            let is_new = kind == EventKind::Created;
            let follows = match last_events.insert(id, (sequence, kind)) {
                Some((_, before)) => is_new == (before == EventKind::Deleted),
                // Events before the oldest kept one are not known.
                None => is_new || stored_from > 1,
            };
            if !follows {
                findings.add(format_args!(
                    "event {sequence} ({kind:?}) cannot follow the event before it of plant {id}"
                ))?;
            }
            Ok(())
        })?;
        match totals.map(|totals| totals.last_sequence) {
            Some(last) if next <= last => {
                self.findings.add(format_args!("the events from {next} to {last} are missing"))?;
            }
            Some(last) if next > last + 1 => {
                self.findings
                    .add(format_args!("there are events after number {last}, the last one"))?;
            }
            _ => {}
        }
        Ok((events, last_events))
    }

    /// Returns the number of plants, and the digest that the counts of the tags should have.
    fn check_plants(
        &mut self,
        totals: Option<&Totals>,
        mut last_events: LastEvents,
    ) -> anyhow::Result<(u64, Digest)> {
        let (stored_from, progress) = (self.stored_from, self.progress);
        let (mut plants, mut of_plants, mut of_tags) = (0, Digest::default(), Digest::default());
        self.visit(Map::Plants, &[], |key, record, findings| {
            let id = keys::plant_of(key)?;
            plants += 1;
            progress.one_more();
            of_plants += digest(id, record);
            let last_event = last_events.remove(&id);
            let record = PlantRecord::decode(record)
                .and_then(|record| record.to_stored_plant(id).map(|_| record))
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            of_tags += record.tag.map_or_else(Digest::default, digest_of_tag);
            check_last_event(id, &record, last_event, stored_from, findings)
        })?;
        let mut missing: Vec<_> =
            last_events.into_iter().filter(|(_, (_, kind))| *kind != EventKind::Deleted).collect();
        missing.sort_unstable_by_key(|(id, _)| *id);
        for (id, (sequence, _)) in missing {
            self.findings
                .add(format_args!("plant {id} is missing; event {sequence} is its last one"))?;
        }
        if let Some(totals) = totals {
            if plants != totals.plants {
                let counted = totals.plants;
                self.findings
                    .add(format_args!("there are {plants} plants, and the count says {counted}"))?;
            }
            if of_plants != totals.digest {
                self.findings.add("the plants do not match their digest")?;
            }
        }
        Ok((plants, of_tags))
    }

    /// The digest that the plants of all counts add up to, if the counts can be read.
    fn digest_of_counts(&mut self) -> anyhow::Result<Option<Digest>> {
        let mut entries = Merge::of_levels(self.levels, Map::Tags, &[]);
        let (mut of_tags, mut is_readable) = (Digest::default(), true);
        loop {
            match self.findings.value_of(entries.next_count())? {
                Some(Some((tag, count))) => {
                    of_tags += digest_of_tag(tag) * Wrapping(count.cast_unsigned());
                }
                Some(None) => return Ok(is_readable.then_some(of_tags)),
                None => is_readable = false,
            }
        }
    }
}

/// Checks that the search index of a table is as this program builds it for the blocks of its plants.
fn check_index(
    table: &Arc<Table>,
    findings: &mut Findings,
    progress: &Progress<'_>,
) -> anyhow::Result<()> {
    let (name, is_right) = (table.metadata.number, index_is_right(table, progress));
    match is_right {
        Ok(true) => Ok(()),
        Ok(false) => {
            findings.add(format_args!("the search index of table {name} does not match its plants"))
        }
        Err(error) if is_about_content(&error) => {
            let error = error.context(format!(
                "the search index of table {name} cannot be compared with its plants"
            ));
            findings.value_of::<()>(Err(error)).map(drop)
        }
        Err(error) => Err(error),
    }
}

fn index_is_right(table: &Arc<Table>, progress: &Progress<'_>) -> anyhow::Result<bool> {
    let mut built = IndexBuilder::default();
    let mut found = Arc::clone(table).entries(Map::Search, &[]);
    let (mut plant_entries, mut first_plants) = (0, table.first_plants.iter());
    let mut blocks = table.blocks(Map::Plants)?;
    while let Some((first_key, block)) = blocks.next()? {
        let is_first_plant = first_plants.next().is_some_and(|first| *first == *first_key);
        if !is_first_plant || !are_next(&mut *found, &built.begin_block()?)? {
            return Ok(false);
        }
        let mut block = BlockCursor::new(block);
        while block.advance()? {
            built.add(block.value());
            plant_entries += 1;
            progress.one_more();
        }
    }
    let last_chunk = built.take_chunk()?;
    let rest = [last_chunk, vec![built.outline()?]].concat();
    Ok(are_next(&mut *found, &rest)?
        && !found.advance()?
        && plant_entries == table.summary.plant_entries)
}

/// Whether these are the next entries.
fn are_next(found: &mut dyn Entries, expected: &IndexEntries) -> anyhow::Result<bool> {
    for (key, value) in expected {
        if !found.advance()? || found.entry() != Some((key, Some(value))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The part of the digest of all tags that each plant with this tag adds.
fn digest_of_tag(tag: &str) -> Digest {
    digest(PlantId::MIN, tag.as_bytes())
}

fn check_last_event(
    id: PlantId,
    record: &PlantRecord<'_>,
    last_event: Option<(u64, EventKind)>,
    stored_from: u64,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let revision = record.revision;
    match last_event {
        Some((sequence, EventKind::Deleted)) => {
            findings.add(format_args!("plant {id} is there, and event {sequence} removed it"))
        }
        Some((sequence, _)) if sequence != revision => findings.add(format_args!(
            "plant {id} has the revision {revision}, and event {sequence} is its last one"
        )),
        None if revision >= stored_from => findings
            .add(format_args!("plant {id} has the revision {revision}, and that event is missing")),
        _ => Ok(()),
    }
}
