//! Recovery: the groups in the write-ahead log that no table has yet.

use anyhow::{Context as _, ensure};

use super::change::{ChangeGroup, Totals};
use super::findings::Findings;
use super::memtable::Memtable;

/// Puts the groups after `in_tables` into a memtable, and returns it with the totals that it leads to. When nothing is known
/// of the tables, the memtable gets all of the newest groups. `groups` are in no particular order.
pub(super) fn replay(
    in_tables: Option<Totals>,
    groups: Vec<ChangeGroup>,
    findings: &mut Findings,
) -> anyhow::Result<(Memtable, Totals)> {
    let newest = newest_run(groups);
    let before_newest = || newest.first().map(ChangeGroup::totals_before).unwrap_or_default();
    let in_tables = in_tables.unwrap_or_else(before_newest);
    let nothing = || (Memtable::after(in_tables.last_sequence), in_tables);
    let first_sequence = newest.first().map_or(1, |first| first.first_sequence);
    let last_sequence = newest.last().map_or(0, ChangeGroup::last_sequence);
    if last_sequence < in_tables.last_sequence {
        findings.add(format_args!(
            "the changes between number {last_sequence} and {} are missing in the write-ahead log",
            in_tables.last_sequence
        ))?;
        return Ok(nothing());
    }
    if first_sequence > in_tables.last_sequence + 1 {
        findings.add(format_args!(
            "the changes between number {} and {first_sequence} are lost from the write-ahead log",
            in_tables.last_sequence
        ))?;
        return Ok(nothing());
    }
    let (mut memtable, mut totals) = nothing();
    let apply = || {
        for group in newest {
            if group.last_sequence() > in_tables.last_sequence {
                ensure!(group.follows(&totals), "it does not follow the tables");
                totals = totals.after(&group.changes)?;
                memtable.apply(group)?;
            }
        }
        Ok((memtable, totals))
    };
    let applied = apply().context("the write-ahead log cannot be applied");
    Ok(findings.value_of(applied)?.unwrap_or_else(nothing))
}

/// The newest groups without a gap between them. A segment that is being overwritten still ends with older groups.
fn newest_run(mut groups: Vec<ChangeGroup>) -> Vec<ChangeGroup> {
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let has_gap =
        |(one, next): (&ChangeGroup, &ChangeGroup)| one.last_sequence() + 1 != next.first_sequence;
    let mut neighbors = groups.iter().zip(groups.iter().skip(1));
    let newest = neighbors.rposition(has_gap).map_or(0, |before| before + 1);
    groups.split_off(newest)
}
