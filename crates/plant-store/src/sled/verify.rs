//! Whether plants, tag index, count and events agree.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use plant_domain::PlantId;

use super::layout::{
    self, EVENT_PREFIX, EventRecord, PLANT_PREFIX, PlantRecord, event_sequence, plant_id,
};
use super::reader::{Reader, TAG_RUN};
use crate::EventKind;

/// Says of each disagreement what it is. Nobody may write meanwhile. All ids and tags are held in
/// memory.
pub(super) fn disagreements(reader: &Reader) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut plants = BTreeMap::new();
    for entry in reader.db.scan_prefix(PLANT_PREFIX) {
        let (key, value) = entry.context("cannot read the plants")?;
        let id = plant_id(&key)?;
        let record: PlantRecord<'_> =
            layout::decode(&value).with_context(|| format!("the record of plant {id}"))?;
        plants.insert(id, (record.revision, record.tag.map(str::to_owned)));
    }
    let counted = plants.len() as u64;
    let state = reader.shared.state();
    if state.plants != counted {
        found.push(format!("there are {counted} plants, and the count says {}", state.plants));
    }
    check_tags(reader, &plants, &mut found)?;
    check_events(reader, &plants, &mut found)?;
    Ok(found)
}

/// The revision and the tag of each plant.
type Plants = BTreeMap<PlantId, (u64, Option<String>)>;

fn check_tags(reader: &Reader, plants: &Plants, found: &mut Vec<String>) -> anyhow::Result<()> {
    let mut tagged = BTreeMap::<&str, BTreeSet<PlantId>>::new();
    for (id, (_, tag)) in plants {
        if let Some(tag) = tag {
            tagged.entry(tag).or_default().insert(*id);
        }
    }
    let index = &reader.shared.tag_index;
    let mut tags = index.tags(&reader.db)?;
    tags.extend(tagged.keys().map(|tag| (*tag).to_owned()));
    for tag in tags {
        let mut indexed = BTreeSet::new();
        let mut next = Some(PlantId::MIN);
        while let Some(from) = next {
            let run = index.next_run(&reader.db, &tag, from, TAG_RUN)?;
            indexed.extend(run.ids);
            next = run.next;
        }
        let tagged = tagged.remove(tag.as_str()).unwrap_or_default();
        for id in tagged.difference(&indexed) {
            found.push(format!("plant {id} has the tag {tag:?}, and the index does not know"));
        }
        for id in indexed.difference(&tagged) {
            found.push(format!("plant {id} is in the index of the tag {tag:?}, which it has not"));
        }
    }
    Ok(())
}

fn check_events(reader: &Reader, plants: &Plants, found: &mut Vec<String>) -> anyhow::Result<()> {
    let state = reader.shared.state();
    let mut last_of_plants = BTreeMap::new();
    let mut expected = state.kept_from;
    for entry in reader.db.scan_prefix(EVENT_PREFIX) {
        let (key, value) = entry.context("cannot read the events")?;
        let first = event_sequence(&key)?;
        let record: EventRecord<'_> =
            layout::decode(&value).with_context(|| format!("the events from number {first} on"))?;
        for (sequence, event) in (first..).zip(record.events) {
            if sequence < state.kept_from {
                continue;
            }
            if sequence != expected {
                found.push(format!("event {expected} is missing; {sequence} is there"));
            }
            expected = sequence + 1;
            last_of_plants.insert(PlantId::from(event.id), (sequence, event.kind));
        }
    }
    if expected != state.last_sequence + 1 {
        found.push(format!("the last event is {}, not {}", expected - 1, state.last_sequence));
    }
    for (id, (sequence, kind)) in &last_of_plants {
        let revision = plants.get(id).map(|(revision, _)| *revision);
        let should_be = (*kind != EventKind::Deleted).then_some(*sequence);
        if revision != should_be {
            found.push(format!(
                "event {sequence} is the last of plant {id}, which has another state"
            ));
        }
    }
    for (id, (revision, _)) in plants {
        if *revision >= state.kept_from && !last_of_plants.contains_key(id) {
            found.push(format!(
                "plant {id} has the revision {revision}, of which there is no event"
            ));
        }
    }
    Ok(())
}
