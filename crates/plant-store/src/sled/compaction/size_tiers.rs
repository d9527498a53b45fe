//! Size-tiered compaction: chooses the tables to merge.

use std::ops::Range;

/// How many neighboring tables of similar size are merged.
const TABLES_OF_A_MERGE: usize = 4;

/// Tables of one tier count as similar in size. Each tier has tables this many times as large as the tier before.
const TIER_FACTOR: u64 = 4;

/// A table with fewer bytes has tier 0. A full memtable makes about that many.
const TIER_0_BYTES: u64 = 12 * 1024 * 1024;

/// All tables are merged when they have more entries than twice the plants plus this number, because at least half of
/// the entries are then obsolete.
const OBSOLETE_ENTRIES: u64 = 1_000_000;

/// The neighboring tables to merge, if any.
///
/// `tables` has the size in bytes and the number of plant entries of each table, newest first. `plants` is the number
/// of plants.
pub(crate) fn tables_to_merge(tables: &[(u64, u64)], plants: u64) -> Option<Range<usize>> {
    let entries: u64 = tables.iter().map(|(_, entries)| entries).sum();
    if tables.len() > 1 && entries > 2 * plants + OBSOLETE_ENTRIES {
        return Some(0..tables.len());
    }
    let tiers = tables.iter().map(|(bytes, _)| tier_of(*bytes, TIER_0_BYTES, TIER_FACTOR));
    let tiers: Vec<u32> = tiers.collect();
    let greatest = tiers.iter().max().copied()?;
    (0..=greatest).find_map(|tier| neighbors(&tiers, tier, TABLES_OF_A_MERGE))
}

/// The first range that begins and ends with `tier`, has `tier` at least `at_least` times, and has no greater tier.
/// Lesser tiers in between belong to the range.
pub(crate) fn neighbors(tiers: &[u32], tier: u32, at_least: usize) -> Option<Range<usize>> {
    let mut begin = 0;
    for stretch in tiers.split(|one| *one > tier) {
        let of_tier = |one: &u32| *one == tier;
        if stretch.iter().filter(|one| of_tier(one)).count() >= at_least {
            let first = stretch.iter().position(of_tier)?;
            let last = stretch.iter().rposition(of_tier)?;
            return Some(begin + first..begin + last + 1);
        }
        begin += stretch.len() + 1;
    }
    None
}

/// The tier of a size: 0 below `tier_0_bytes`, and one more for each `factor`.
pub(crate) fn tier_of(bytes: u64, tier_0_bytes: u64, factor: u64) -> u32 {
    (bytes / tier_0_bytes).checked_ilog(factor).map_or(0, |tier| tier + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSHED_BYTES: u64 = 10 * 1024 * 1024;
    const FLUSHED_PLANTS: u64 = 70_000;

    /// Flushes memtables of new plants, with merges in between. Returns the tables, and the average writes of each
    /// plant.
    fn after(flushes: u64) -> (Vec<(u64, u64)>, u64) {
        let (mut tables, mut written) = (Vec::new(), 0);
        for flush in 1..=flushes {
            tables.insert(0, (FLUSHED_BYTES, FLUSHED_PLANTS));
            written += FLUSHED_BYTES;
            while let Some(inputs) = tables_to_merge(&tables, flush * FLUSHED_PLANTS) {
                let merged = tables[inputs.clone()].iter();
                let merged = merged.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                written += merged.0;
                tables.splice(inputs, [merged]);
            }
        }
        (tables, written / (flushes * FLUSHED_BYTES))
    }

    #[test]
    fn the_number_of_tables_and_the_writes_of_a_plant_grow_with_the_logarithm_of_the_plants() {
        for (flushes, tables_max, writes_max) in
            [(1, 1, 1), (4, 1, 2), (150, 12, 4), (1_500, 15, 6)]
        {
            let (tables, writes) = after(flushes);
            assert!(tables.len() <= tables_max, "{tables:?} after {flushes} flushes");
            assert!(writes <= writes_max, "{writes} writes of a plant after {flushes} flushes");
            let entries: u64 = tables.iter().map(|(_, entries)| entries).sum();
            assert_eq!(entries, flushes * FLUSHED_PLANTS);
        }
    }

    #[test]
    fn tables_of_mostly_obsolete_entries_are_merged_whatever_their_sizes() {
        let tables = [(1, OBSOLETE_ENTRIES), (1 << 40, 100)];
        assert_eq!(tables_to_merge(&tables, 50), None);
        assert_eq!(tables_to_merge(&tables, 49), Some(0..2));
        assert_eq!(tables_to_merge(&tables[..1], 0), None, "one table cannot become less");
    }
}
