//! How far a database is: what the journal has is folded into sled again, and nothing may be missing then.

use std::thread;

use anyhow::{Context as _, anyhow, ensure};
use plant_domain::PlantId;
use sled::Tree;

use super::blocks::{Block, BlocksLock};
use super::digest::Digest;
use super::findings::Findings;
use super::fold::fold;
use super::generation::Generation;
use super::guarded::guarded;
use super::layout::{
    self, Group, PlantRecord, STATE_KEY, State, TAG_PREFIX, decode_events, event_keys_from,
    event_sequence, plant_digest, tag_digest, tag_of_prefix,
};
use super::paced::PacedDb;
use super::scan::PlantScan;
use crate::fault;

/// How far the database is, with what the journal has, where that can be told.
pub(super) fn read(
    db: &PacedDb,
    journal_payloads: &[Vec<u8>],
    findings: &mut Findings,
) -> anyhow::Result<Option<State>> {
    let Some(in_sled) = findings.value_of(read_state(db))? else { return Ok(None) };
    let replayed = guarded(|| replay_journal(db, in_sled, journal_payloads, findings));
    fault::point("after-replay");
    // It is as far as it was where the journal cannot be applied.
    Ok(Some(replayed?.unwrap_or(in_sled)))
}

/// How far sled is.
fn read_state(db: &sled::Db) -> anyhow::Result<State> {
    let value = guarded(|| Ok(db.get(STATE_KEY)?)).context("the state cannot be read")?;
    let value = value.context("the state is missing: most of the database is lost")?;
    layout::decode(&value).context("the state is damaged")
}

/// Applies again what the journal has; see there. Returns the state that it leads to.
fn replay_journal(
    db: &PacedDb,
    in_sled: State,
    payloads: &[Vec<u8>],
    findings: &mut Findings,
) -> anyhow::Result<Option<State>> {
    let mut groups = Vec::with_capacity(payloads.len());
    for payload in payloads {
        groups.extend(findings.value_of(Group::decode(payload))?);
    }
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let begins_run = |(one, next): (&Group, &Group)| one.last_sequence() + 1 != next.first_sequence;
    let mut runs = groups.iter().zip(groups.iter().skip(1));
    let newest = runs.rposition(begins_run).map_or(0, |before| before + 1);
    let newest = groups.split_off(newest);

    let first_sequence = newest.first().map_or(1, |first| first.first_sequence);
    let last_sequence = newest.last().map_or(0, Group::last_sequence);
    if last_sequence < in_sled.last_sequence {
        findings.add(format_args!(
            "the changes between number {last_sequence} and {} are missing in the journal",
            in_sled.last_sequence
        ))?;
        return Ok(None);
    }
    if first_sequence > in_sled.last_sequence + 1 {
        findings.add(format_args!(
            "the changes between number {} and {first_sequence} are lost from the journal",
            in_sled.last_sequence
        ))?;
        return Ok(None);
    }
    let Some(first) = newest.first() else { return Ok(None) };
    let mut state = in_sled.before(first);
    let mut generation = Generation::behind(state.last_sequence);
    let apply = || {
        for group in newest {
            state = state.after(&group.changes)?;
            generation.apply(group)?;
        }
        // It is for those who write to forget events.
        let keep_events = u64::MAX;
        fold(db, &BlocksLock::default(), &generation, state, keep_events, || ())
    };
    findings.value_of(guarded(apply).context("the journal cannot be applied"))
}

/// What sled has lost or brought back from an older state, even though the journal was applied again,
/// shows here: the plants are not as many as were counted, they are others than they were, the tag index
/// does not know them as they are, or events are missing.
pub(super) fn check(tree: &Tree, state: &State) -> anyhow::Result<()> {
    let (plants, index) = thread::scope(|scope| {
        let index = scope.spawn(|| {
            guarded(|| {
                check_events(tree, state)?;
                digest_of_index(tree)
            })
        });
        let plants = guarded(|| digest_of_plants(tree));
        let index = index.join().unwrap_or_else(|_| Err(anyhow!("a check panicked")));
        (plants, index)
    });
    let (plants, index_digest) = (plants?, index?);
    let Plants { count, digest, tags_digest } = plants;
    ensure!(
        count == state.plants,
        "there are {count} plants, but there were {} at the end",
        state.plants
    );
    ensure!(digest == state.digest, "some plants are not as they were at the end");
    ensure!(tags_digest == index_digest, "the index of the tags does not agree with the plants");
    Ok(())
}

struct Plants {
    count: u64,
    digest: Digest,
    tags_digest: Digest,
}

fn digest_of_plants(tree: &Tree) -> anyhow::Result<Plants> {
    let (mut count, mut digest, mut tags_digest) = (0, Digest::default(), Digest::default());
    for entry in PlantScan::new(tree) {
        let (id, record) = entry?;
        count += 1;
        digest += plant_digest(id, &record);
        let record = PlantRecord::decode(&record)
            .with_context(|| format!("the record of plant {id} is damaged"))?;
        if let Some(tag) = record.tag {
            tags_digest += tag_digest(tag, id);
        }
    }
    Ok(Plants { count, digest, tags_digest })
}

fn digest_of_index(tree: &Tree) -> anyhow::Result<Digest> {
    let mut digest = Digest::default();
    visit_index(tree, &mut Findings::Refuse, |tag, id, _| {
        digest += tag_digest(tag, id);
        Ok(())
    })?;
    Ok(digest)
}

/// Shows every tag with every plant that the index has under it. A block that is wrong is a finding, and
/// left out.
///
/// # Errors
///
/// When sled cannot read on, and as `visit` has them.
pub(super) fn visit_index(
    tree: &Tree,
    findings: &mut Findings,
    mut visit: impl FnMut(&str, PlantId, &mut Findings) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut before: Option<(Block, PlantId)> = None;
    for entry in tree.scan_prefix(TAG_PREFIX) {
        let (key, value) = entry.context("cannot read the index of the tags")?;
        let block = Block::new(key, value);
        let decoded = block.prefix().and_then(|prefix| {
            let ids = block.entries()?.map(|entry| Ok(entry?.0));
            Ok((prefix, tag_of_prefix(prefix)?, ids.collect::<anyhow::Result<Vec<_>>>()?))
        });
        let decoded = decoded.context("a block in the index of the tags is damaged");
        let Some((prefix, tag, ids)) = findings.value_of(decoded)? else { continue };
        let overlaps = before.is_some_and(|(before, last)| {
            before.prefix().is_ok_and(|before| before == prefix)
                && block.first_id().is_ok_and(|first| last >= first)
        });
        if overlaps {
            findings.add(format_args!("the index of tag {tag:?} has blocks that overlap"))?;
        }
        for id in &ids {
            visit(tag, *id, findings)?;
        }
        before = ids.last().map(|last| (block.clone(), *last));
    }
    Ok(())
}

/// sled drops a damaged log entry without an error; here it shows, for the numbers have no gap.
fn check_events(tree: &Tree, state: &State) -> anyhow::Result<()> {
    let mut next = state.kept_from;
    for entry in tree.range(event_keys_from(state.kept_from)) {
        let (key, value) = entry.context("the events cannot be read")?;
        let first = event_sequence(&key)?;
        let count = decode_events(first, &value)?.len() as u64;
        let end = first + count - 1;
        ensure!(first <= next, "the events between number {} and {first} are lost", next - 1);
        next = end + 1;
    }
    let last = next - 1;
    ensure!(last >= state.last_sequence, "the events from number {next} on are lost");
    ensure!(last == state.last_sequence, "there are events behind number {}", state.last_sequence);
    Ok(())
}
