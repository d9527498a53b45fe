//! Compares plants, tag index, count, digest and events with each other.
//!
//! Memory is bounded by the number of kept events: plants and the index are read as streams, and each is looked up in
//! the other.

use std::collections::HashMap;

use anyhow::Context as _;
use plant_domain::PlantId;

use super::blocks;
use super::findings::Findings;
use super::layout::{self, EventOfPlant, Manifest, PLANT_PREFIX, tag_blocks_prefix};
use super::ordered_map::Db;
use super::ordered_map::guarded::guarded;
use super::recovery::{visit_events, visit_index};
use super::scan::PlantScan;
use crate::EventKind;
use crate::plant_record::PlantRecord;

/// Compares all data with each other. No other thread may write at the same time. Returns the numbers of plants and
/// of events.
pub(super) fn verify(
    db: &Db,
    manifest: Option<&Manifest>,
    findings: &mut Findings,
) -> anyhow::Result<(u64, u64)> {
    let mut last_events = LastEvents::default();
    let events = read_events(db, manifest, &mut last_events, findings)?;
    let plants = check_plants(db, manifest, last_events, findings)?;
    let indexed = guarded(|| check_index(db, findings));
    findings.value_of(indexed.context("the index of the tags cannot be read to its end"))?;
    Ok((plants, events))
}

/// The last kept event of each plant, and its sequence number.
type LastEvents = HashMap<PlantId, (u64, EventKind)>;

/// Checks that each event can follow the one before it of the same plant. Returns the number of events.
fn read_events(
    db: &Db,
    manifest: Option<&Manifest>,
    last_events: &mut LastEvents,
    findings: &mut Findings,
) -> anyhow::Result<u64> {
    let kept_from = manifest.map_or(1, |manifest| manifest.kept_from);
    let mut events = 0;
    visit_events(db, manifest, findings, |sequence, EventOfPlant { kind, id }, findings| {
        events += 1;
        let id = PlantId::from(id);
        let is_new = kind == EventKind::Created;
        let follows = match last_events.insert(id, (sequence, kind)) {
            Some((_, before)) => is_new == (before == EventKind::Deleted),
            // Events before the oldest kept one are not known.
            None => is_new || kept_from > 1,
        };
        if follows {
            return Ok(());
        }
        findings.add(format_args!(
            "event {sequence} ({kind:?}) cannot follow the event before it of plant {id}"
        ))
    })?;
    Ok(events)
}

fn check_plants(
    db: &Db,
    manifest: Option<&Manifest>,
    mut last_events: LastEvents,
    findings: &mut Findings,
) -> anyhow::Result<u64> {
    let kept_from = manifest.map_or(1, |manifest| manifest.kept_from);
    let mut plants = 0;
    let mut digest = layout::Digest::default();
    for entry in PlantScan::new(db) {
        let Some((id, record)) = findings.value_of(entry)? else { continue };
        plants += 1;
        digest += layout::digest(id, &record);
        let last_event = last_events.remove(&id);
        let record = PlantRecord::decode(&record)
            .and_then(|record| record.to_stored_plant(id).map(|_| record))
            .with_context(|| format!("the record of plant {id} is damaged"));
        let Some(record) = findings.value_of(record)? else { continue };
        check_last_event(id, &record, last_event, kept_from, findings)?;
        if let Some(tag) = record.tag {
            let known = guarded(|| blocks::get(db, &tag_blocks_prefix(tag), id));
            // A damaged block is reported by `check_index`.
            if let Ok(None) = known {
                findings.add(format_args!(
                    "plant {id} has the tag {tag:?} and is missing in its index"
                ))?;
            }
        }
    }
    let mut missing: Vec<_> =
        last_events.into_iter().filter(|(_, (_, kind))| *kind != EventKind::Deleted).collect();
    missing.sort_unstable_by_key(|(id, _)| *id);
    for (id, (sequence, _)) in missing {
        findings.add(format_args!("plant {id} is missing; event {sequence} is its last one"))?;
    }
    if let Some(manifest) = manifest {
        if plants != manifest.plants {
            let counted = manifest.plants;
            findings
                .add(format_args!("there are {plants} plants, and the count says {counted}"))?;
        }
        if digest != manifest.digest {
            findings.add("the plants do not match their digest")?;
        }
    }
    Ok(plants)
}

fn check_last_event(
    id: PlantId,
    record: &PlantRecord<'_>,
    last_event: Option<(u64, EventKind)>,
    kept_from: u64,
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
        None if revision >= kept_from => findings
            .add(format_args!("plant {id} has the revision {revision}, and that event is missing")),
        _ => Ok(()),
    }
}

/// Every plant in the index of a tag must have the tag.
fn check_index(db: &Db, findings: &mut Findings) -> anyhow::Result<()> {
    visit_index(db, findings, |tag, id, findings| {
        // An unreadable plant is reported by `check_plants`.
        let Ok(record) = guarded(|| blocks::get(db, PLANT_PREFIX, id)) else { return Ok(()) };
        match record.as_ref().map(|record| record.decode()) {
            Some(Err(_)) => Ok(()),
            Some(Ok(record)) if record.tag == Some(tag) => Ok(()),
            _ => findings.add(format_args!(
                "plant {id} is in the index of tag {tag:?} and does not have that tag"
            )),
        }
    })
}
