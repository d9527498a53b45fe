//! Compares plants, tag index, count, digest and events with each other.
//!
//! Memory is bounded by the number of kept events: plants and the index are read as streams, and looked up in each other
//! only when their digests differ.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::PlantId;

use super::change::{Digest, EventOfPlant, Totals, digest};
use super::findings::Findings;
use super::keys;
use super::merge::{Merge, Tables};
use crate::EventKind;
use crate::plant_record::PlantRecord;

/// Compares all data of these tables with each other, and with what they should add up to, if that is known. Returns the
/// numbers of plants and of events.
pub(super) fn verify(
    tables: &Tables,
    totals: Option<&Totals>,
    findings: &mut Findings,
) -> anyhow::Result<(u64, u64)> {
    for table in &**tables {
        findings.value_of(table.check_heads())?;
    }
    let mut verifier =
        Verifier { tables, stored_from: totals.map_or(1, |totals| totals.stored_from), findings };
    let (events, last_events) = verifier.read_events(totals)?;
    let (plants, of_plants) = verifier.check_plants(totals, last_events)?;
    if verifier.digest_of_index()? != of_plants {
        verifier.compare_index()?;
    }
    Ok((plants, events))
}

struct Verifier<'a> {
    tables: &'a Tables,
    stored_from: u64,
    findings: &'a mut Findings,
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

    /// Returns the number of plants, and the digest that the index of the tags should have.
    fn check_plants(
        &mut self,
        totals: Option<&Totals>,
        mut last_events: LastEvents,
    ) -> anyhow::Result<(u64, Digest)> {
        let stored_from = self.stored_from;
        let (mut plants, mut of_plants, mut of_tags) = (0, Digest::default(), Digest::default());
        self.visit(&keys::plant_key(PlantId::MIN), |key, record, findings| {
            let Some(id) = keys::plant_of(key)? else { return Ok(false) };
            plants += 1;
            of_plants += digest(id, record);
            let last_event = last_events.remove(&id);
            let record = PlantRecord::decode(record)
                .and_then(|record| record.to_stored_plant(id).map(|_| record))
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            of_tags += record.tag.map_or_else(Digest::default, |tag| digest(id, tag.as_bytes()));
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

    fn digest_of_index(&mut self) -> anyhow::Result<Digest> {
        let mut of_tags = Digest::default();
        self.visit(&[keys::TAG_PREFIX], |key, _, _| {
            let Some((tag, id)) = keys::tag_of(key)? else { return Ok(false) };
            of_tags += digest(id, tag.as_bytes());
            Ok(true)
        })?;
        Ok(of_tags)
    }

    /// Looks each plant up in the index of its tag, and each entry of the index among the plants.
    fn compare_index(&mut self) -> anyhow::Result<()> {
        let tables = self.tables;
        let get = |key: &[u8]| -> anyhow::Result<Option<Arc<[u8]>>> {
            for table in &**tables {
                if let Some(value) = table.get(key)? {
                    return Ok(value);
                }
            }
            Ok(None)
        };
        self.visit(&keys::plant_key(PlantId::MIN), |key, record, findings| {
            let Some(id) = keys::plant_of(key)? else { return Ok(false) };
            // What cannot be read is reported already.
            if let Ok(Some(tag)) = PlantRecord::decode(record).map(|record| record.tag)
                && let Ok(None) = get(&keys::tag_key(tag, id))
            {
                findings.add(format_args!(
                    "plant {id} has the tag {tag:?} and is missing in its index"
                ))?;
            }
            Ok(true)
        })?;
        self.visit(&[keys::TAG_PREFIX], |key, _, findings| {
            let Some((tag, id)) = keys::tag_of(key)? else { return Ok(false) };
            let Ok(record) = get(&keys::plant_key(id)) else { return Ok(true) };
            let has_tag = match record.as_deref().map(PlantRecord::decode) {
                Some(Ok(record)) => record.tag == Some(tag),
                Some(Err(_)) => true,
                None => false,
            };
            if !has_tag {
                findings.add(format_args!(
                    "plant {id} is in the index of tag {tag:?} and does not have that tag"
                ))?;
            }
            Ok(true)
        })
    }
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
