//! Compares plants, search index, counts, digest and events with each other.
//!
//! Memory is bounded by the number of kept events, and by the number of tags once the counts of tags are wrong.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::num::Wrapping;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::PlantId;

use super::change::{Digest, EventOfPlant, Totals, digest};
use super::errors::is_about_content;
use super::findings::Findings;
use super::keys;
use super::merge::{Merge, Tables};
use super::table::{Part, Table, TableCursor};
use super::table_writer::TableWriter;
use super::tag_counts::TagCounts;
use crate::EventKind;
use crate::plant_record::PlantRecord;

/// Compares all data of these tables with each other, and with what they should add up to, if that is known. Returns the
/// numbers of plants and of events. Calls `progress` with the share that is done, from 0 to 1.
pub(super) fn verify(
    tables: &Tables,
    totals: Option<&Totals>,
    findings: &mut Findings,
    progress: &dyn Fn(f64),
) -> anyhow::Result<(u64, u64)> {
    for table in &**tables {
        findings.value_of(table.check_heads())?;
    }
    let stored_from = totals.map_or(1, |totals| totals.stored_from);
    let progress = Progress::of(tables, progress);
    let mut verifier = Verifier { tables, stored_from, findings, progress: &progress };
    let (events, last_events) = verifier.read_events(totals)?;
    let (plants, of_plants) = verifier.check_plants(totals, last_events)?;
    // Without the manifest, the inputs of a merge may be there beside its result, and count twice.
    if totals.is_some() && verifier.digest_of_counts()?.is_some_and(|it| it != of_plants) {
        verifier.compare_counts()?;
    }
    for table in &**tables {
        check_index(table, findings, &progress)?;
    }
    Ok((plants, events))
}

/// The number of plants, and the sum of their digests.
pub(super) fn count_and_digest(tables: &Tables) -> anyhow::Result<(u64, Digest)> {
    let (mut plants, mut of_plants) = (0, Digest::default());
    let mut entries = Merge::new(tables, &keys::plant_key(PlantId::MIN));
    while let Some((key, record)) = entries.next()? {
        let Some(id) = keys::plant_of(key)? else { break };
        let Some(record) = record else { continue };
        plants += 1;
        of_plants += digest(id, record);
    }
    Ok((plants, of_plants))
}

struct Verifier<'a> {
    tables: &'a Tables,
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

    fn of(tables: &Tables, report: &'a dyn Fn(f64)) -> Self {
        let entries: u64 = tables.iter().map(|table| table.plant_entries).sum();
        Self { all: 2 * entries, compared: Cell::new(0), report }
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
    /// Calls `visit` with every entry from a key on, until `visit` returns false. An unreadable block is a finding.
    fn visit(
        &mut self,
        from: &[u8],
        mut visit: impl FnMut(&[u8], &[u8], &mut Findings) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut entries = Merge::new(self.tables, from);
        loop {
            let entry = match entries.next() {
                Ok(Some((key, Some(value)))) => visit(key, value, self.findings),
                Ok(Some((_, None))) => continue,
                Ok(None) => return Ok(()),
                Err(error) => Err(error),
            };
            if self.findings.value_of(entry)? == Some(false) {
                return Ok(());
            }
        }
    }

    /// Checks that the events have no gap, and that each can follow the one before it of the same plant. Returns the
    /// number of events.
    fn read_events(&mut self, totals: Option<&Totals>) -> anyhow::Result<(u64, LastEvents)> {
        let (stored_from, mut next) = (self.stored_from, self.stored_from);
        let mut events = 0;
        let mut last_events = LastEvents::new();
        self.visit(&keys::event_key(stored_from), |key, value, findings| {
            let Some(sequence) = keys::event_of(key)? else { return Ok(false) };
            if sequence > next {
                let last = sequence - 1;
                findings.add(format_args!("the events from {next} to {last} are missing"))?;
            }
            next = sequence + 1;
            events += 1;
            let EventOfPlant { kind, id, .. } = EventOfPlant::decode(value)?;
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
            Ok(true)
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
        self.visit(&keys::plant_key(PlantId::MIN), |key, record, findings| {
            let Some(id) = keys::plant_of(key)? else { return Ok(false) };
            plants += 1;
            progress.one_more();
            of_plants += digest(id, record);
            let last_event = last_events.remove(&id);
            let record = PlantRecord::decode(record)
                .and_then(|record| record.to_stored_plant(id).map(|_| record))
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            of_tags += record.tag.map_or_else(Digest::default, digest_of_tag);
            check_last_event(id, &record, last_event, stored_from, findings)?;
            Ok(true)
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

    /// Calls `visit` with every tag and its count. Returns whether all could be read; what cannot is a finding.
    fn visit_counts(
        &mut self,
        mut visit: impl FnMut(&str, i64, &mut Findings) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let mut entries = Merge::new(self.tables, &[]);
        let mut is_readable = true;
        loop {
            let counted = entries.advance().and_then(|()| entries.tag_count());
            match self.findings.value_of(counted)? {
                Some(Some((tag, count))) => visit(tag, count, self.findings)?,
                Some(None) => return Ok(is_readable),
                None => is_readable = false,
            }
        }
    }

    /// The digest of all counts, if they can be read.
    fn digest_of_counts(&mut self) -> anyhow::Result<Option<Digest>> {
        let mut of_tags = Digest::default();
        let is_readable = self.visit_counts(|tag, count, _| {
            of_tags += digest_of_tag(tag) * Wrapping(count.cast_unsigned());
            Ok(())
        })?;
        Ok(is_readable.then_some(of_tags))
    }

    /// Counts the plants of each tag again.
    fn compare_counts(&mut self) -> anyhow::Result<()> {
        let mut counted = TagCounts::new();
        self.visit(&keys::plant_key(PlantId::MIN), |key, record, _| {
            let is_plant = keys::plant_of(key)?.is_some();
            // What cannot be read is reported already.
            if let Ok(Some(tag)) = PlantRecord::decode(record).map(|record| record.tag) {
                *counted.entry(tag.into()).or_default() += 1;
            }
            Ok(is_plant)
        })?;
        let wrong = |tag: &str, plants: i64, count: i64| {
            format!("of tag {tag:?} there are {plants} readable plants, and its count says {count}")
        };
        self.visit_counts(|tag, count, findings| {
            let plants = counted.remove(tag).unwrap_or_default();
            if plants == count { Ok(()) } else { findings.add(wrong(tag, plants, count)) }
        })?;
        let mut without_count = counted.into_iter();
        without_count.try_for_each(|(tag, plants)| self.findings.add(wrong(&tag, plants, 0)))
    }
}

/// Checks that the layout and the search index of a table are as this program writes them for its entries.
fn check_index(
    table: &Arc<Table>,
    findings: &mut Findings,
    progress: &Progress<'_>,
) -> anyhow::Result<()> {
    if table.plant_entries == 0 {
        // Nothing is known of the index of a table whose tail is damaged.
        return Ok(());
    }
    let mut postings = TableCursor::new(Arc::clone(table), Part::SearchIndex, &[], false);
    while findings.value_of(postings.advance())? != Some(false) {}
    let is_right = || -> anyhow::Result<bool> {
        let mut entries = TableCursor::new(Arc::clone(table), Part::Entries, &[], false);
        let mut written = TableWriter::new(io::sink(), 0);
        let mut plant_entries = 0;
        while entries.advance()? {
            let (key, value) = entries.entry().context("an entry is missing")?;
            written.add(key, value)?;
            if keys::plant_of(key)?.is_some() {
                plant_entries += 1;
                progress.one_more();
            }
        }
        Ok(*written.end_blocks()? == table.layout && plant_entries == table.plant_entries)
    };
    match is_right() {
        Ok(true) => Ok(()),
        Ok(false) => {
            let number = table.metadata.number;
            findings
                .add(format_args!("the search index of table {number} does not match its plants"))
        }
        // What cannot be read is reported already.
        Err(error) if is_about_content(&error) => Ok(()),
        Err(error) => Err(error),
    }
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
