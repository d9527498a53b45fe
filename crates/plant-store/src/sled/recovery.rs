//! How far a database is: what the journal has is folded into sled again, and nothing may be missing then.

use std::ops::Range;
use std::thread;

use super::ordered_map::{Db, IVec, Tree};
use anyhow::{Context as _, anyhow, ensure};
use plant_domain::PlantId;

use super::blocks::{Block, BlocksLock, check_order, plant_keys};
use super::digest::PlantsDigest;
use super::findings::Findings;
use super::fold::fold;
use super::generation::Generation;
use super::id_filter::IdFilter;
use super::layout::{
    self, ChangeGroup, STATE_KEY, SYNCED_KEY, State, TAG_PREFIX, decode_events, event_keys_from,
    event_sequence, plant_digest, tag_digest, tag_of_prefix,
};
use super::ordered_map::guarded::guarded;
use super::ordered_map::paced::PacedDb;
use crate::fault;
use crate::plant_record::RecordBytes;

/// What of the journal is folded into sled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    /// What sled may not have on disk.
    Unsynced,
    /// Everything, which brings back what sled has lost of it.
    All,
}

/// How far the database is, with what the journal has, where that can be told.
pub(super) fn read(
    db: &PacedDb,
    journal_payloads: &[Vec<u8>],
    replay: Replay,
    findings: &mut Findings,
) -> anyhow::Result<Option<State>> {
    let Some(in_sled) = findings.value_of(read_state(db))? else { return Ok(None) };
    let synced = match replay {
        Replay::All => 0,
        // Where sled has lost its newest state alone, nothing that comes behind the older one is synced.
        Replay::Unsynced => {
            read_synced(db)?.filter(|synced| *synced <= in_sled.last_sequence).unwrap_or(0)
        }
    };
    let replayed = guarded(|| replay_journal(db, in_sled, synced, journal_payloads, findings));
    fault::point("after-replay");
    // It is as far as it was where the journal cannot be applied.
    Ok(Some(replayed?.unwrap_or(in_sled)))
}

/// Up to which event everything is on disk in sled, where that is known.
fn read_synced(db: &Db) -> anyhow::Result<Option<u64>> {
    let value = guarded(|| Ok(db.get(SYNCED_KEY)?)).context("what is synced cannot be read")?;
    Ok(value.and_then(|value| value.as_ref().try_into().ok()).map(u64::from_be_bytes))
}

/// How far sled is.
fn read_state(db: &Db) -> anyhow::Result<State> {
    let value = guarded(|| Ok(db.get(STATE_KEY)?)).context("the state cannot be read")?;
    let value = value.context("the state is missing: most of the database is lost")?;
    let state: State = layout::decode(&value).context("the state is damaged")?;
    ensure!(
        (1..=state.last_sequence.saturating_add(1)).contains(&state.kept_from),
        "the state is damaged: events are kept from number {} on, and the last is {}",
        state.kept_from,
        state.last_sequence
    );
    Ok(state)
}

/// Applies again what the journal has; see there. Returns the state that it leads to.
fn replay_journal(
    db: &PacedDb,
    in_sled: State,
    synced: u64,
    payloads: &[Vec<u8>],
    findings: &mut Findings,
) -> anyhow::Result<Option<State>> {
    let mut groups = Vec::with_capacity(payloads.len());
    for payload in payloads {
        groups.extend(findings.value_of(ChangeGroup::decode(payload))?);
    }
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let begins_run =
        |(one, next): (&ChangeGroup, &ChangeGroup)| one.last_sequence() + 1 != next.first_sequence;
    let mut runs = groups.iter().zip(groups.iter().skip(1));
    let newest = runs.rposition(begins_run).map_or(0, |before| before + 1);
    let mut newest = groups.split_off(newest);

    let first_sequence = newest.first().map_or(1, |first| first.first_sequence);
    let last_sequence = newest.last().map_or(0, ChangeGroup::last_sequence);
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
    newest.retain(|group| group.last_sequence() > synced);
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
/// does not know them as they are, or events are missing. Returns which ids are used.
pub(super) fn check(tree: &Tree, state: &State) -> anyhow::Result<IdFilter> {
    let middle = middle_of_plants(tree)?;
    let plants_in = |keys| guarded(|| sum_of_plants(tree, keys, state.plants / 2));
    let (lower, upper, index) = thread::scope(|scope| {
        let lower = scope.spawn(|| plants_in(plant_keys(PlantId::MIN).start..middle.clone()));
        let upper = scope.spawn(|| plants_in(middle.clone()..plant_keys(PlantId::MIN).end));
        let index = guarded(|| {
            check_events(tree, state)?;
            digest_of_index(tree)
        });
        let panicked = |_| Err(anyhow!("a check panicked"));
        (lower.join().unwrap_or_else(panicked), upper.join().unwrap_or_else(panicked), index)
    });
    let PlantsSum { count, digest, tags_digest, ids, .. } = lower?.with_those_behind(upper?)?;
    ensure!(
        count == state.plants,
        "there are {count} plants, but there were {} at the end",
        state.plants
    );
    ensure!(digest == state.digest, "some plants are not as they were at the end");
    ensure!(tags_digest == index?, "the index of the tags does not agree with the plants");
    Ok(ids)
}

/// How many ids are told to a filter at a time.
const IDS_AT_ONCE: usize = 1_024;

/// A key in the middle between those of the first and the last block of plants.
fn middle_of_plants(tree: &Tree) -> anyhow::Result<Vec<u8>> {
    guarded(|| {
        let mut blocks = tree.range(plant_keys(PlantId::MIN));
        let end =
            |entry: Option<super::ordered_map::Result<(IVec, IVec)>>| -> anyhow::Result<PlantId> {
                let block = entry.transpose()?.map(|(key, value)| Block::new(key, value));
                block.map_or(Ok(PlantId::MIN), |block| block.first_id())
            };
        // The first one begins at the least id, whatever is in it.
        let (_, second, last) = (blocks.next(), end(blocks.next())?, end(blocks.next_back())?);
        let middle = second.get().midpoint(last.get().max(second.get()));
        Ok(plant_keys(PlantId::from(middle)).start)
    })
    .context("cannot read the plants")
}

/// What comes together of some plants that follow each other.
struct PlantsSum {
    count: u64,
    digest: PlantsDigest,
    tags_digest: PlantsDigest,
    /// The id that the first block begins at, and the last one in the last block.
    ends: Option<(PlantId, PlantId)>,
    ids: IdFilter,
}

impl PlantsSum {
    fn with_those_behind(self, behind: Self) -> anyhow::Result<Self> {
        let ends = match (self.ends, behind.ends) {
            (Some((first, last)), Some((next, end))) => {
                check_order(last, next)?;
                Some((first, end))
            }
            (ends, None) | (None, ends) => ends,
        };
        Ok(Self {
            count: self.count + behind.count,
            digest: self.digest + behind.digest,
            tags_digest: self.tags_digest + behind.tags_digest,
            ends,
            ids: self.ids.join(behind.ids),
        })
    }
}

fn sum_of_plants(tree: &Tree, keys: Range<Vec<u8>>, about: u64) -> anyhow::Result<PlantsSum> {
    let mut sum = PlantsSum {
        count: 0,
        digest: PlantsDigest::default(),
        tags_digest: PlantsDigest::default(),
        ends: None,
        ids: IdFilter::with_room_for(about),
    };
    let mut new_ids = Vec::with_capacity(2 * IDS_AT_ONCE);
    for entry in tree.range(keys) {
        let (key, value) = entry.context("cannot read the plants")?;
        let block = Block::new(key, value);
        let first_id = block.first_id()?;
        let (begin, last) = sum.ends.get_or_insert((first_id, first_id));
        if *begin != first_id {
            check_order(*last, first_id)?;
        }
        let damaged = || format!("the block of plants from id {first_id} on is damaged");
        for entry in block.entries().with_context(damaged)? {
            let (id, record) = entry.with_context(damaged)?;
            sum.count += 1;
            sum.digest += plant_digest(id, record);
            // Where a text is none any more, the digest is another one.
            let record = RecordBytes::decode(record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            if let Some(tag) = record.tag {
                sum.tags_digest += tag_digest(tag, id);
            }
            new_ids.push(id);
            *last = id;
        }
        if new_ids.len() >= IDS_AT_ONCE {
            sum.ids.add_all(&new_ids);
            new_ids.clear();
        }
    }
    sum.ids.add_all(&new_ids);
    Ok(sum)
}

fn digest_of_index(tree: &Tree) -> anyhow::Result<PlantsDigest> {
    let mut digest = PlantsDigest::default();
    visit_index(tree, &mut Findings::Refuse, |tag, id, _| {
        digest += tag_digest(tag.as_bytes(), id);
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
        let decoded =
            block.prefix().and_then(|prefix| Ok((prefix, tag_of_prefix(prefix)?, block.ids()?)));
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
