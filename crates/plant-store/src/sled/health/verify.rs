//! Compares plants, search index, counts, digest and events with each other. Memory does not grow with any of them.

use std::cell::Cell;
use std::num::Wrapping;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use plant_domain::PlantId;

use super::errors::is_about_content;
use super::events_by_plant::{EventsByPlant, PlantEvent, UnsortedEvents};
use super::findings::Findings;
use crate::record::{PlantRecord, Version};
use crate::sled::commit::change::{Digest, Totals, digest};
use crate::sled::events::record::EventRecord;
use crate::sled::keys::{self, EventKey};
use crate::sled::memtable::tag_counts::add_count;
use crate::sled::search::builder::{IndexBuilder, IndexEntries};
use crate::sled::tables::{BlockCursor, Entries, EntrySink, EntrySource, Level as _, Map, Table};
use crate::{EventKind, StoredResult};

/// The result of verifying a database or a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The number of plants.
    pub plants: u64,
    /// The number of kept events.
    pub events: u64,
    /// The first thousand disagreements, as a sentence each.
    pub disagreements: Vec<String>,
    /// The number of further disagreements.
    pub more_disagreements: u64,
}

impl Verification {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.disagreements.is_empty() && self.more_disagreements == 0
    }
}

/// How many entries are taken from their source at a time.
const ENTRIES_AT_A_TIME: usize = 1024;

/// Compares entries with each other, map by map, and with the expected totals.
pub(crate) struct Verifier<'a> {
    /// The expected totals, if they are known.
    totals: Option<Totals>,
    /// All events from this number on should exist.
    stored_from: u64,
    /// Older events are forgotten.
    history_from: u64,
    findings: Findings,
    progress: Progress<'a>,
    events: u64,
    /// The sequence number of the next event.
    next_event: u64,
    unsorted: UnsortedEvents,
    /// The events of the plants that are still to come; `None` before the first plant.
    sorted: Option<EventsByPlant>,
    plants: u64,
    of_plants: Digest,
    /// The digests of the plants' tags and of the counts of tags, which must be equal.
    of_tags: Digest,
    of_counts: Digest,
    /// The digests of the versions and deletions that the events imply, and of those that are there, which must be equal.
    of_events: Digest,
    of_history: Digest,
}

impl<'a> Verifier<'a> {
    /// `entries` is the number of plant entries to compare. Calls `report` with the completed share, from 0 to 1.
    pub(crate) fn new(
        totals: Option<Totals>,
        findings: Findings,
        entries: u64,
        report: &'a dyn Fn(f64),
    ) -> Self {
        let stored_from = totals.map_or(1, |totals| totals.stored_from);
        let history_from = totals.map_or(1, |totals| totals.history_from);
        Self {
            totals,
            stored_from,
            history_from,
            findings,
            progress: Progress { all: entries, compared: Cell::new(0), report },
            events: 0,
            next_event: stored_from,
            unsorted: UnsortedEvents::default(),
            sorted: None,
            plants: 0,
            of_plants: Digest::default(),
            of_tags: Digest::default(),
            of_counts: Digest::default(),
            of_events: Digest::default(),
            of_history: Digest::default(),
        }
    }

    /// Compares all entries of a database or a backup with each other. An unreadable entry is a finding.
    pub(crate) fn read(&mut self, source: &mut impl EntrySource) -> anyhow::Result<()> {
        loop {
            let taken = source.take(ENTRIES_AT_A_TIME, self);
            if self.findings.value_of(taken)? == Some(false) {
                return Ok(());
            }
        }
    }

    /// Compares the blocks of a table with its checksums, and its search index with its plants.
    pub(crate) fn verify_table(&mut self, table: &Arc<Table>) -> anyhow::Result<()> {
        self.findings.value_of(table.check(&|| Ok(())))?;
        check_index(table, &mut self.findings, &self.progress)
    }

    pub(crate) fn into_verification(self) -> Verification {
        let (disagreements, more_disagreements) = self.findings.into_list();
        let (plants, events) = (self.plants, self.events);
        Verification { plants, events, disagreements, more_disagreements }
    }

    fn entry_of_event(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let event_key = EventKey::of(key)?;
        if event_key.sequence() < self.history_from {
            return Ok(());
        }
        match event_key {
            EventKey::Event(sequence) => self.event(sequence, value),
            EventKey::Version(_) => {
                self.of_history += digest_of_key(key);
                Version::decode(value).map(drop)
            }
            EventKey::Deletion(..) => {
                self.of_history += digest_of_key(key);
                Ok(())
            }
            EventKey::Batch(..) => StoredResult::decode(value).map(drop).map_err(Into::into),
        }
    }

    /// Checks that the events have no gap, apart from those that a restore has left.
    fn event(&mut self, sequence: u64, value: &[u8]) -> anyhow::Result<()> {
        if sequence >= self.stored_from {
            self.events += 1;
            self.expect_events_up_to(sequence - 1)?;
            self.next_event = sequence + 1;
        }
        let event = EventRecord::decode(value)?;
        if let Some(previous) = event.previous {
            if previous >= self.history_from {
                self.of_events += digest_of_key(&keys::version_key(previous));
            }
            if event.core.kind == EventKind::Deleted {
                self.of_events += digest_of_key(&keys::deletion_key(event.id(), sequence));
            }
        }
        self.unsorted.add(PlantEvent::new(event.id(), sequence, event.core.kind))
    }

    fn expect_events_up_to(&mut self, last: u64) -> anyhow::Result<()> {
        let next = self.next_event;
        if next <= last {
            self.findings.add(format_args!("the events from {next} to {last} are missing"))?;
        }
        Ok(())
    }

    fn plant(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let id = keys::plant_of(key)?;
        self.plants += 1;
        self.progress.one_more();
        self.of_plants += digest(id, value);
        self.expect_no_plants_before(Some(id))?;
        let last_event = self.last_event(id)?;
        let record = PlantRecord::decode(value)
            .and_then(|record| record.to_stored_plant(id).map(|_| record))
            .with_context(|| format!("the record of plant {id} is damaged"))?;
        self.of_tags +=
            record.tag.map_or_else(Digest::default, |tag| digest_of_key(tag.as_bytes()));
        let revision = record.revision;
        match last_event {
            Some(PlantEvent { sequence, kind: EventKind::Deleted, .. }) => {
                bail!("plant {id} is there, and event {sequence} removed it")
            }
            Some(PlantEvent { sequence, .. }) => ensure!(
                sequence == revision,
                "plant {id} has the revision {revision}, and event {sequence} is its last one"
            ),
            None => ensure!(
                revision < self.history_from,
                "plant {id} has the revision {revision}, and that event is missing"
            ),
        }
        Ok(())
    }

    /// Checks that no plant before this one is missing although its last event is no deletion. `None`: the end.
    fn expect_no_plants_before(&mut self, plant: Option<PlantId>) -> anyhow::Result<()> {
        if self.sorted.is_none() {
            self.sorted = Some(self.unsorted.sort()?);
        }
        loop {
            let next = self.sorted.as_ref().and_then(EventsByPlant::next_plant);
            let Some(next) = next.filter(|next| plant.is_none_or(|plant| *next < plant)) else {
                return Ok(());
            };
            match self.last_event(next)? {
                Some(PlantEvent { sequence, kind, .. }) if kind != EventKind::Deleted => {
                    self.findings.add(format_args!(
                        "plant {next} is missing; event {sequence} is its last one"
                    ))?;
                }
                _ => {}
            }
        }
    }

    /// The last event of a plant. Checks that each event of the plant can follow the one before it.
    fn last_event(&mut self, plant: PlantId) -> anyhow::Result<Option<PlantEvent>> {
        let mut last: Option<PlantEvent> = None;
        let Some(sorted) = &mut self.sorted else { return Ok(last) };
        while let Some(event) = sorted.next_of(plant)? {
            let is_new = event.kind == EventKind::Created;
            let follows = match last.replace(event) {
                Some(before) => is_new == (before.kind == EventKind::Deleted),
                // The events before the oldest kept one are unknown.
                None => is_new || self.history_from > 1,
            };
            if !follows {
                let PlantEvent { sequence, kind, .. } = event;
                self.findings.add(format_args!(
                    "event {sequence} ({kind:?}) cannot follow the event before it of plant {plant}"
                ))?;
            }
        }
        Ok(last)
    }

    fn count(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let (tag, count) = (keys::tag_of(key)?, add_count(0, Some(value))?);
        self.of_counts += digest_of_key(tag.as_bytes()) * Wrapping(count.cast_unsigned());
        // Without the manifest, the inputs of a merge may be there beside its result, and the counts of both are added
        // up.
        ensure!(count > 0 || self.totals.is_none(), "the count of the tag {tag:?} is {count}");
        Ok(())
    }

    /// Compares the totals of all entries with the expected ones.
    pub(crate) fn check_totals(&mut self) -> anyhow::Result<()> {
        self.expect_no_plants_before(None)?;
        let Some(Totals { last_sequence, plants, digest, .. }) = self.totals else { return Ok(()) };
        self.expect_events_up_to(last_sequence)?;
        if self.next_event > last_sequence + 1 {
            self.findings
                .add(format_args!("there are events after number {last_sequence}, the last one"))?;
        }
        if self.plants != plants {
            let found = self.plants;
            self.findings
                .add(format_args!("there are {found} plants, and the count says {plants}"))?;
        }
        if self.of_plants != digest {
            self.findings.add("the plants do not match their digest")?;
        }
        if self.of_history != self.of_events {
            self.findings.add("the versions and deletions of plants do not match the events")?;
        }
        if self.of_counts != self.of_tags {
            self.findings.add("the counts of the tags do not match the plants")?;
        }
        Ok(())
    }
}

impl EntrySink for Verifier<'_> {
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        // A tombstone removes older entries.
        let Some(value) = value else { return Ok(()) };
        match map {
            Map::Tags => self.count(key, value),
            Map::Events => self.entry_of_event(key, value),
            Map::Plants => self.plant(key, value),
            Map::Search => Ok(()),
        }
    }
}

/// The number of compared plant entries: each is compared with its events, and with the search index.
struct Progress<'a> {
    all: u64,
    compared: Cell<u64>,
    report: &'a dyn Fn(f64),
}

impl Progress<'_> {
    /// How many entries are compared between two reports.
    const INTERVAL: u64 = 4096;

    fn one_more(&self) {
        let compared = self.compared.get() + 1;
        self.compared.set(compared);
        if compared.is_multiple_of(Self::INTERVAL) {
            (self.report)((compared as f64 / self.all as f64).min(1.0));
        }
    }
}

/// Checks that the search index of a table equals the one that this program builds for its plant blocks.
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

/// Whether the next entries are these.
fn are_next(found: &mut dyn Entries, expected: &IndexEntries) -> anyhow::Result<bool> {
    for (key, value) in expected {
        if !found.advance()? || found.entry() != Some((key, Some(value))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a key adds to a digest of keys alone.
fn digest_of_key(key: &[u8]) -> Digest {
    digest(PlantId::MIN, key)
}
