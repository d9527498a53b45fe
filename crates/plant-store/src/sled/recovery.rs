//! How far a database is: what the journal has is applied again, and nothing may be missing then.

use anyhow::{Context as _, ensure};

use super::database::{State, write_group};
use super::digest::Digest;
use super::findings::Findings;
use super::guarded::guarded;
use super::layout::{
    self, EVENT_PREFIX, EventRecord, Group, OPENED_KEY, PLANT_PREFIX, PlantRecord, event_sequence,
    plant_id,
};
use super::paced::PacedDb;
use super::tag_index::{TagIndex, tag_digest};
use crate::fault;

/// How far the database is, with what the journal has, and the tag index of it.
pub(super) fn read(
    db: &PacedDb,
    journal_payloads: &[Vec<u8>],
    tag_changes_in_memory: usize,
    findings: &mut Findings,
) -> anyhow::Result<(Option<State>, TagIndex)> {
    replay_journal(db, journal_payloads, findings)?;
    fault::point("after-replay");
    let state = read_state(db, findings)?;
    let indexed_through = state.map_or(0, |state| state.indexed_through);
    let tag_index = TagIndex::new(tag_changes_in_memory, indexed_through);
    if let Some(state) = &state {
        let mut findings = findings.of_first_look();
        let read = guarded(|| read_events(db, state, &tag_index, &mut findings));
        findings.value_of(read)?;
    }
    Ok((state, tag_index))
}

/// Applies again what the journal has; see there.
fn replay_journal(
    db: &PacedDb,
    payloads: &[Vec<u8>],
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let mut groups = Vec::with_capacity(payloads.len());
    for payload in payloads {
        groups.extend(findings.value_of(Group::decode(payload))?);
    }
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let newest = groups.chunk_by(|one, next| one.last_sequence() + 1 == next.first_sequence).last();
    let newest = newest.unwrap_or_default();

    // What cannot be read of it is a finding of the one who reads it for good.
    let Some(in_sled) = read_state(db, &mut Findings::list())? else { return Ok(()) };
    let last_sequence = newest.last().map_or(0, Group::last_sequence);
    if last_sequence < in_sled.last_sequence {
        // A kill came before the first record since the last start was written, or while it was, over the
        // newest ones. What those held was brought to the disk in sled by that start.
        if db.get(OPENED_KEY)?.as_deref() == Some(&in_sled.last_sequence.to_be_bytes()) {
            return Ok(());
        }
        return findings.add(format_args!(
            "the changes between number {last_sequence} and {} are missing in the journal",
            in_sled.last_sequence
        ));
    }
    let [first, ..] = newest else { return Ok(()) };
    if first.first_sequence > in_sled.last_sequence + 1 {
        return findings.add(format_args!(
            "the changes between number {} and {} are lost from the journal",
            in_sled.last_sequence, first.first_sequence
        ));
    }
    let mut state = in_sled.before(first);
    let mut apply = |group: &Group<'_>| {
        state = state.after(&group.changes)?;
        write_group(db, group, &state)
    };
    for group in newest {
        let applied = guarded(|| apply(group));
        let number = || format!("the journal from number {} on", group.first_sequence);
        if findings.value_of(applied.with_context(number))?.is_none() {
            break;
        }
        fault::point("after-replayed-group");
    }
    Ok(())
}

/// How far the newest event record that can be read says that the database is; none when there are
/// records and none can be read.
fn read_state(db: &sled::Db, findings: &mut Findings) -> anyhow::Result<Option<State>> {
    let mut records = db.scan_prefix(EVENT_PREFIX);
    let mut is_any = false;
    loop {
        let record = guarded(|| Ok(records.next_back().transpose()?));
        let record = record.context("the newest event record cannot be read");
        let Some(record) = findings.value_of(record)? else { return Ok(None) };
        let Some((key, value)) = record else { break };
        is_any = true;
        let state = state_in(&key, &value).context("the newest event record is damaged");
        if let Some(state) = findings.value_of(state)? {
            return Ok(Some(state));
        }
    }
    Ok((!is_any).then(State::default))
}

fn state_in(key: &[u8], value: &[u8]) -> anyhow::Result<State> {
    let EventRecord { plants, digest, indexed_through, kept_from, events } = layout::decode(value)?;
    let last_sequence = (event_sequence(key)? + events.len() as u64).saturating_sub(1);
    Ok(State { last_sequence, plants, digest, kept_from, indexed_through })
}

/// Reads all events that are kept: what the tag index does not have on disk goes to it. sled drops a
/// damaged log entry without an error; here it shows, for the numbers have no gap.
fn read_events(
    db: &sled::Db,
    state: &State,
    tag_index: &TagIndex,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let mut last_sequence = state.kept_from.saturating_sub(1);
    for entry in db.scan_prefix(EVENT_PREFIX) {
        let (key, value) = entry.context("the events cannot be read")?;
        let first_sequence = event_sequence(&key)?;
        let record = layout::decode::<EventRecord<'_>>(&value).with_context(|| {
            format!("the event record from number {first_sequence} on is damaged")
        });
        let Some(record) = findings.value_of(record)? else { continue };
        let end = first_sequence + record.events.len() as u64;
        if end <= state.kept_from {
            // Remains of old events.
            continue;
        }
        if first_sequence > last_sequence + 1 {
            findings.add(format_args!(
                "the events between number {last_sequence} and {first_sequence} are lost"
            ))?;
        }
        // The oldest record may begin with events that are not kept any more.
        if first_sequence <= last_sequence && last_sequence >= state.kept_from {
            findings
                .add(format_args!("the events from number {first_sequence} on are there twice"))?;
        }
        let events = (first_sequence..).zip(record.events);
        let later = events.filter(|(sequence, _)| *sequence > state.indexed_through);
        tag_index.apply(later.map(|(_, event)| event));
        last_sequence = end - 1;
    }
    Ok(())
}

/// What sled has lost or brought back from an older state, even though the journal was applied again,
/// shows here: the plants are not as many as were counted, they are others than they were, or the tag
/// index does not know them as they are.
pub(super) fn check_plants(
    db: &sled::Db,
    state: &State,
    tag_index: &TagIndex,
) -> anyhow::Result<()> {
    let mut plants: u64 = 0;
    let (mut digest, mut tags_digest) = (Digest::default(), Digest::default());
    for entry in db.scan_prefix(PLANT_PREFIX) {
        let (key, value) = entry.context("cannot read the plants")?;
        plants += 1;
        digest += Digest::of(&key, &value);
        let id = plant_id(&key)?;
        let record: PlantRecord<'_> =
            layout::decode(&value).with_context(|| format!("the record of plant {id}"))?;
        if let Some(tag) = record.tag {
            tags_digest += tag_digest(tag, id);
        }
    }
    ensure!(
        plants == state.plants,
        "there are {plants} plants, but there were {} at the end",
        state.plants
    );
    ensure!(digest == state.digest, "some plants are not as they were at the end");
    ensure!(
        tags_digest == tag_index.digest(db)?,
        "the index of the tags does not agree with the plants"
    );
    Ok(())
}
