//! Whether plants, tag index, count, digest and events agree.
//!
//! What is kept in memory is bounded by the kept events; plants and the index are read as a stream,
//! and each is looked up in the other.

use std::collections::HashMap;

use anyhow::Context as _;
use plant_domain::PlantId;
use sled::Db;

use super::database::State;
use super::digest::Digest;
use super::findings::Findings;
use super::guarded::guarded;
use super::layout::{self, EVENT_PREFIX, EventRecord, PlantRecord, event_sequence, plant_key};
use super::scan::PlantScan;
use super::tag_index::TagIndex;
use crate::EventKind;

/// How much of a database was compared.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) plants: u64,
    pub(super) events: u64,
}

/// Compares everything with everything. Nobody may write meanwhile.
pub(super) fn verify(
    db: &Db,
    state: Option<&State>,
    tag_index: &TagIndex,
    findings: &mut Findings,
) -> anyhow::Result<Compared> {
    let mut last_events = LastEvents::default();
    let events = read_events(db, state, &mut last_events, findings)?;
    let plants = check_plants(db, state, tag_index, last_events, findings)?;
    let indexed = guarded(|| check_index(db, tag_index, findings));
    findings.value_of(indexed.context("the index of the tags cannot be read to its end"))?;
    Ok(Compared { plants, events })
}

/// The last event of each plant of which events are kept.
type LastEvents = HashMap<PlantId, LastEvent>;

struct LastEvent {
    sequence: u64,
    kind: EventKind,
    tag: Option<TagDigest>,
}

/// Enough of a tag to tell it from another one.
type TagDigest = Digest;

fn digest_of_tag(tag: Option<&str>) -> Option<TagDigest> {
    tag.map(|tag| Digest::of(&[], tag.as_bytes()))
}

/// Returns how many events there are. Each must follow from the one before it of the same plant.
fn read_events(
    db: &Db,
    state: Option<&State>,
    last_events: &mut LastEvents,
    findings: &mut Findings,
) -> anyhow::Result<u64> {
    let kept_from = state.map_or(1, |state| state.kept_from);
    let mut events = 0;
    let mut expected = kept_from;
    let mut entries = db.scan_prefix(EVENT_PREFIX);
    loop {
        let entry = guarded(|| Ok(entries.next().transpose()?));
        let broken = || format!("the events behind number {} cannot be read", expected - 1);
        let Some(Some((key, value))) = findings.value_of(entry.with_context(broken))? else {
            break;
        };
        let first = event_sequence(&key)?;
        let record = layout::decode::<EventRecord<'_>>(&value)
            .with_context(|| format!("the event record from number {first} on is damaged"));
        let Some(record) = findings.value_of(record)? else { continue };
        for (sequence, event) in (first..).zip(record.events) {
            if sequence < kept_from {
                continue;
            }
            if sequence > expected {
                let last = sequence - 1;
                findings.add(format_args!("the events from {expected} to {last} are missing"))?;
            }
            if sequence < expected {
                findings.add(format_args!("event {sequence} is there twice"))?;
                continue;
            }
            expected = sequence + 1;
            events += 1;
            let id = PlantId::from(event.id);
            let before = last_events.get(&id);
            let tag = digest_of_tag(event.tag);
            let left = digest_of_tag(event.left_tag);
            let follows = match before {
                Some(before) => {
                    let was_there = before.kind != EventKind::Deleted;
                    (event.kind != EventKind::Created) == was_there
                        && left == before.tag.filter(|before| Some(*before) != tag)
                }
                // What was before the oldest event is not known.
                None => {
                    let is_new = event.kind == EventKind::Created;
                    (is_new || kept_from > 1) && !(is_new && left.is_some())
                }
            };
            if !follows || event.kind == EventKind::Deleted && tag.is_some() {
                let kind = event.kind;
                findings.add(format_args!(
                    "event {sequence} ({kind:?}) does not follow from what was before with plant {id}"
                ))?;
            }
            last_events.insert(id, LastEvent { sequence, kind: event.kind, tag });
        }
    }
    if let Some(State { last_sequence, .. }) = state
        && expected != last_sequence + 1
    {
        findings.add(format_args!("the last event is {}, not {last_sequence}", expected - 1))?;
    }
    Ok(events)
}

/// Returns how many plants there are.
fn check_plants(
    db: &Db,
    state: Option<&State>,
    tag_index: &TagIndex,
    mut last_events: LastEvents,
    findings: &mut Findings,
) -> anyhow::Result<u64> {
    let kept_from = state.map_or(1, |state| state.kept_from);
    let mut plants = 0;
    let mut digest = Digest::default();
    for entry in PlantScan::new(db) {
        let Some((id, key, value)) = findings.value_of(entry)? else { continue };
        plants += 1;
        digest += Digest::of(&key, &value);
        let last_event = last_events.remove(&id);
        let record = layout::decode::<PlantRecord<'_>>(&value)
            .and_then(|record| record.to_stored_plant(id).map(|_| record))
            .with_context(|| format!("the record of plant {id} is damaged"));
        let Some(record) = findings.value_of(record)? else { continue };
        check_last_event(id, &record, last_event, kept_from, findings)?;
        if let Some(tag) = record.tag {
            let knows = guarded(|| tag_index.knows(db, tag, id));
            if findings.value_of(knows)? == Some(false) {
                findings.add(format_args!(
                    "plant {id} has the tag {tag:?}, and the index does not know"
                ))?;
            }
        }
    }
    let mut missing: Vec<_> =
        last_events.into_iter().filter(|(_, event)| event.kind != EventKind::Deleted).collect();
    missing.sort_unstable_by_key(|(id, _)| *id);
    for (id, LastEvent { sequence, .. }) in missing {
        findings.add(format_args!("plant {id} is missing; event {sequence} is its last one"))?;
    }
    if let Some(state) = state {
        if plants != state.plants {
            let counted = state.plants;
            findings
                .add(format_args!("there are {plants} plants, and the count says {counted}"))?;
        }
        if digest != state.digest {
            findings.add("the plants are not those of which the digest was made")?;
        }
    }
    Ok(plants)
}

fn check_last_event(
    id: PlantId,
    record: &PlantRecord<'_>,
    last_event: Option<LastEvent>,
    kept_from: u64,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let revision = record.revision;
    match last_event {
        Some(LastEvent { sequence, kind: EventKind::Deleted, .. }) => {
            findings.add(format_args!("plant {id} is there, and event {sequence} removed it"))
        }
        Some(LastEvent { sequence, .. }) if sequence != revision => findings.add(format_args!(
            "plant {id} has the revision {revision}, and event {sequence} is its last one"
        )),
        Some(LastEvent { sequence, tag, .. }) if tag != digest_of_tag(record.tag) => findings.add(
            format_args!("plant {id} has another tag than its last event, {sequence}, gave it"),
        ),
        None if revision >= kept_from => findings.add(format_args!(
            "plant {id} has the revision {revision}, of which there is no event"
        )),
        _ => Ok(()),
    }
}

/// Every plant that the index knows under a tag must have it.
fn check_index(db: &Db, tag_index: &TagIndex, findings: &mut Findings) -> anyhow::Result<()> {
    tag_index.visit(db, findings, |tag, id, findings| {
        let record = guarded(|| Ok(db.get(plant_key(id))?));
        // A plant that cannot be read was found already.
        let Ok(value) = record else { return Ok(()) };
        let record = value.as_deref().map(layout::decode::<PlantRecord<'_>>);
        match record {
            Some(Err(_)) => Ok(()),
            Some(Ok(record)) if record.tag == Some(tag) => Ok(()),
            _ => findings.add(format_args!(
                "plant {id} is in the index of the tag {tag:?}, which it has not"
            )),
        }
    })
}
