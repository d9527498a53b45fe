//! Recovery: replays the write-ahead log into sled, and then checks that nothing is missing.

use std::ops::Range;
use std::thread;

use anyhow::{Context as _, anyhow, ensure};
use plant_domain::PlantId;

use super::blocks::{Block, BlocksLock, check_order, plant_keys};
use super::bloom_filter::BloomFilter;
use super::compaction::compact;
use super::findings::Findings;
use super::layout::{
    self, ChangeGroup, Digest, EVENT_PREFIX, EVENTS_IN_A_RECORD, EventOfPlant, MANIFEST_KEY,
    Manifest, PLANT_PREFIX, SYNCED_KEY, TAG_PREFIX, decode_events, event_sequence,
    tag_blocks_prefix, tag_of_key,
};
use super::memtable::Memtable;
use super::ordered_map::guarded::guarded;
use super::ordered_map::paced::PacedDb;
use super::ordered_map::{Db, Tree};
use crate::fault;
use crate::plant_record::RecordBytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    /// The groups that sled may not have on disk.
    Unsynced,
    /// All groups, which restores changes that sled has lost.
    All,
}

/// Replays the write-ahead log, and returns the manifest, if it can be read.
pub(super) fn read(
    db: &PacedDb,
    log_payloads: &[Vec<u8>],
    replay: Replay,
    findings: &mut Findings,
) -> anyhow::Result<Option<Manifest>> {
    let Some(in_sled) = findings.value_of(read_manifest(db))? else { return Ok(None) };
    let synced = match replay {
        Replay::All => 0,
        // A manifest older than the synced number means that sled has lost writes: then no group counts as synced.
        Replay::Unsynced => {
            read_synced(db)?.filter(|synced| *synced <= in_sled.last_sequence).unwrap_or(0)
        }
    };
    let replayed = guarded(|| replay_log(db, in_sled, synced, log_payloads, findings));
    fault::point("after-replay");
    // Without a replay the manifest is the one in sled.
    Ok(Some(replayed?.unwrap_or(in_sled)))
}

/// The last event that was on disk in sled at a checkpoint, if that is known.
fn read_synced(db: &Db) -> anyhow::Result<Option<u64>> {
    let value = guarded(|| Ok(db.get(SYNCED_KEY)?)).context("what is synced cannot be read")?;
    Ok(value.and_then(|value| value.as_ref().try_into().ok()).map(u64::from_be_bytes))
}

fn read_manifest(db: &Db) -> anyhow::Result<Manifest> {
    let value = guarded(|| Ok(db.get(MANIFEST_KEY)?)).context("the manifest cannot be read")?;
    let value = value.context("the manifest is missing: most of the database is lost")?;
    let manifest: Manifest = layout::decode(&value).context("the manifest is damaged")?;
    ensure!(
        (1..=manifest.last_sequence.saturating_add(1)).contains(&manifest.kept_from),
        "the manifest is damaged: events are kept from number {} on, and the last is {}",
        manifest.kept_from,
        manifest.last_sequence
    );
    Ok(manifest)
}

/// Compacts the newest gapless run of groups, including groups that sled seems to have: after a power cut, sled may
/// have the newest writes without all of the older ones. Groups up to `synced` are left out. Returns the manifest after
/// the last group.
fn replay_log(
    db: &PacedDb,
    in_sled: Manifest,
    synced: u64,
    payloads: &[Vec<u8>],
    findings: &mut Findings,
) -> anyhow::Result<Option<Manifest>> {
    let mut groups = Vec::with_capacity(payloads.len());
    for payload in payloads {
        groups.extend(findings.value_of(ChangeGroup::decode(payload))?);
    }
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let has_gap =
        |(one, next): (&ChangeGroup, &ChangeGroup)| one.last_sequence() + 1 != next.first_sequence;
    let mut neighbors = groups.iter().zip(groups.iter().skip(1));
    let newest = neighbors.rposition(has_gap).map_or(0, |before| before + 1);
    let mut newest = groups.split_off(newest);

    let first_sequence = newest.first().map_or(1, |first| first.first_sequence);
    let last_sequence = newest.last().map_or(0, ChangeGroup::last_sequence);
    if last_sequence < in_sled.last_sequence {
        findings.add(format_args!(
            "the changes between number {last_sequence} and {} are missing in the write-ahead log",
            in_sled.last_sequence
        ))?;
        return Ok(None);
    }
    if first_sequence > in_sled.last_sequence + 1 {
        findings.add(format_args!(
            "the changes between number {} and {first_sequence} are lost from the write-ahead log",
            in_sled.last_sequence
        ))?;
        return Ok(None);
    }
    newest.retain(|group| group.last_sequence() > synced);
    let Some(first) = newest.first() else { return Ok(None) };
    let mut manifest = in_sled.before(first);
    let mut memtable = Memtable::after(manifest.last_sequence);
    let apply = || {
        for group in newest {
            manifest = manifest.after(&group.changes)?;
            memtable.apply(group)?;
        }
        // An open forgets no events.
        let keep_events = u64::MAX;
        compact(db, &BlocksLock::default(), &memtable, manifest, keep_events, || ())
    };
    findings.value_of(guarded(apply).context("the write-ahead log cannot be applied"))
}

/// Finds changes that sled has lost, and older states that sled has restored, despite the replay: compares the plants
/// with their count and digest, the tag index with the plants, and the events with their numbers. Returns the ids in
/// use.
pub(super) fn check(tree: &Tree, manifest: &Manifest) -> anyhow::Result<BloomFilter> {
    let middle = middle_of_plants(tree)?;
    let plants_in = |keys| guarded(|| sum_of_plants(tree, keys, manifest.plants / 2));
    let (lower, upper, index) = thread::scope(|scope| {
        let lower = scope.spawn(|| plants_in(plant_keys(PlantId::MIN).start..middle.clone()));
        let upper = scope.spawn(|| plants_in(middle.clone()..plant_keys(PlantId::MIN).end));
        let index = guarded(|| {
            visit_events(tree, Some(manifest), &mut Findings::Refuse, |_, _, _| Ok(()))?;
            digest_of_index(tree)
        });
        let panicked = |_| Err(anyhow!("a check panicked"));
        (lower.join().unwrap_or_else(panicked), upper.join().unwrap_or_else(panicked), index)
    });
    let PlantsSum { count, digest, tags_digest, ids, .. } = lower?.followed_by(upper?)?;
    ensure!(
        count == manifest.plants,
        "there are {count} plants, but there were {} at the end",
        manifest.plants
    );
    ensure!(digest == manifest.digest, "some plants are not as they were at the end");
    ensure!(tags_digest == index?, "the index of the tags does not agree with the plants");
    Ok(ids)
}

/// A key halfway between those of the first and the last block of plants.
fn middle_of_plants(tree: &Tree) -> anyhow::Result<Vec<u8>> {
    let middle = || {
        let blocks = tree.range(plant_keys(PlantId::MIN));
        let mut begins = blocks.map(|entry| anyhow::Ok(Block::new(PLANT_PREFIX, entry?)?.first));
        // The first block always begins at the least id, so the second one counts.
        let Some(second) = begins.nth(1).transpose()? else { return Ok(PlantId::MIN) };
        let last = begins.next_back().transpose()?.unwrap_or(second);
        Ok(PlantId::from(second.get().midpoint(last.get())))
    };
    let middle = guarded(middle).context("cannot read the plants")?;
    Ok(plant_keys(middle).start)
}

/// The sums over consecutive blocks of plants.
struct PlantsSum {
    count: u64,
    digest: Digest,
    tags_digest: Digest,
    /// The first id of the first block.
    first: Option<PlantId>,
    last: Option<PlantId>,
    ids: BloomFilter,
}

impl PlantsSum {
    fn followed_by(self, next: Self) -> anyhow::Result<Self> {
        if let Some(first) = next.first {
            check_order(self.last, first)?;
        }
        Ok(Self {
            count: self.count + next.count,
            digest: self.digest + next.digest,
            tags_digest: self.tags_digest + next.tags_digest,
            first: self.first.or(next.first),
            last: next.last.or(self.last),
            ids: self.ids.join(next.ids),
        })
    }
}

/// How many ids are added to the Bloom filter at a time.
const IDS_AT_ONCE: usize = 1_024;

fn sum_of_plants(tree: &Tree, keys: Range<Vec<u8>>, about: u64) -> anyhow::Result<PlantsSum> {
    let mut sum = PlantsSum {
        count: 0,
        digest: Digest::default(),
        tags_digest: Digest::default(),
        first: None,
        last: None,
        ids: BloomFilter::with_room_for(about),
    };
    let mut new_ids = Vec::with_capacity(2 * IDS_AT_ONCE);
    for entry in tree.range(keys) {
        let block = Block::new(PLANT_PREFIX, entry.context("cannot read the plants")?)?;
        check_order(sum.last, block.first)?;
        sum.first.get_or_insert(block.first);
        for entry in block.entries() {
            let (id, record) = entry?;
            sum.count += 1;
            sum.digest += layout::digest(id, record);
            // Texts stay unparsed: damage to a text changes the digest.
            let record = RecordBytes::decode(record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            if let Some(tag) = record.tag {
                sum.tags_digest += layout::digest(id, tag);
            }
            new_ids.push(id);
            sum.last = Some(id);
        }
        if new_ids.len() >= IDS_AT_ONCE {
            sum.ids.add_all(&new_ids);
            new_ids.clear();
        }
    }
    sum.ids.add_all(&new_ids);
    Ok(sum)
}

fn digest_of_index(tree: &Tree) -> anyhow::Result<Digest> {
    let mut digest = Digest::default();
    visit_index(tree, &mut Findings::Refuse, |tag, id, _| {
        digest += layout::digest(id, tag.as_bytes());
        Ok(())
    })?;
    Ok(digest)
}

/// Calls `visit` with every tag and every plant in its index. A damaged block is a finding, and left out.
pub(super) fn visit_index(
    tree: &Tree,
    findings: &mut Findings,
    mut visit: impl FnMut(&str, PlantId, &mut Findings) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut before: Option<(String, PlantId)> = None;
    for entry in tree.scan_prefix(TAG_PREFIX) {
        let (key, value) = entry.context("cannot read the index of the tags")?;
        let read = || {
            let tag = tag_of_key(&key)?;
            let block = Block::new(&tag_blocks_prefix(tag), (key.clone(), value))?;
            let ids: Vec<PlantId> =
                block.entries().map(|entry| Ok(entry?.0)).collect::<anyhow::Result<_>>()?;
            anyhow::Ok((tag, block.first, ids))
        };
        let read = read().context("a block in the index of the tags is damaged");
        let Some((tag, first, ids)) = findings.value_of(read)? else { continue };
        if before.is_some_and(|(before, last)| before == tag && last >= first) {
            findings.add(format_args!("the index of tag {tag:?} has blocks that overlap"))?;
        }
        for id in &ids {
            visit(tag, *id, findings)?;
        }
        before = ids.last().map(|last| (tag.to_owned(), *last));
    }
    Ok(())
}

/// Calls `visit` with every kept event and its number, in order. The numbers have no gaps, so this detects a loss: sled
/// drops a damaged log entry without an error.
pub(super) fn visit_events(
    tree: &Tree,
    manifest: Option<&Manifest>,
    findings: &mut Findings,
    mut visit: impl FnMut(u64, EventOfPlant, &mut Findings) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let kept_from = manifest.map_or(1, |manifest| manifest.kept_from);
    let mut next = kept_from;
    let mut records = tree.scan_prefix(EVENT_PREFIX);
    loop {
        let record = guarded(|| Ok(records.next().transpose()?));
        let broken = || format!("the events after number {} cannot be read", next - 1);
        let Some(Some((key, value))) = findings.value_of(record.with_context(broken))? else {
            break;
        };
        let first = event_sequence(&key)?;
        if first + EVENTS_IN_A_RECORD <= kept_from {
            // Forgotten, and not removed yet.
            continue;
        }
        let Some(events) = findings.value_of(decode_events(first, &value))? else { continue };
        let kept = (first..).zip(events).skip_while(|(sequence, _)| *sequence < kept_from);
        for (sequence, event) in kept {
            if sequence > next {
                let last = sequence - 1;
                findings.add(format_args!("the events from {next} to {last} are missing"))?;
            }
            next = sequence + 1;
            visit(sequence, event, findings)?;
        }
    }
    match manifest {
        Some(Manifest { last_sequence: last, .. }) if next <= *last => {
            findings.add(format_args!("the events from {next} to {last} are missing"))
        }
        Some(Manifest { last_sequence: last, .. }) if next > last + 1 => {
            findings.add(format_args!("there are events after number {last}, the last one"))
        }
        _ => Ok(()),
    }
}
