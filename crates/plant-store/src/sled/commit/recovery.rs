//! Recovery: replays the groups that the write-ahead log has and no table has.

use anyhow::{Context as _, ensure};

use crate::sled::commit::change::{ChangeGroup, Totals};
use crate::sled::health::findings::Findings;
use crate::sled::memtable::Memtable;

/// Replays the groups after `in_tables`, which are in any order. Returns the memtables, oldest first, and the totals
/// after them. There is more than one memtable only after a finding: the groups between two memtables are lost.
///
/// If `in_tables` is unknown, only the newest consecutive groups are replayed. Older ones may be left over in segments
/// that were overwritten, and tables may have newer changes.
pub(crate) fn replay(
    in_tables: Option<Totals>,
    groups: Vec<ChangeGroup>,
    findings: &mut Findings,
) -> anyhow::Result<(Vec<Memtable>, Totals)> {
    let mut runs = consecutive(groups);
    let newest_sequence = runs.last().map_or(0, ConsecutiveGroups::last_sequence);
    let in_tables = in_tables.unwrap_or_else(|| {
        runs.drain(..runs.len().saturating_sub(1));
        runs.first().map_or_else(Totals::default, ConsecutiveGroups::totals_before)
    });
    let mut totals = in_tables;
    if newest_sequence < totals.last_sequence {
        findings.add(format_args!(
            "the changes between number {newest_sequence} and {} are missing in the write-ahead log",
            totals.last_sequence
        ))?;
    }
    // The end of a segment may still have groups from its previous use.
    runs.retain(|run| run.last_sequence() > in_tables.last_sequence);
    let mut memtables = Vec::with_capacity(runs.len());
    for run in runs {
        let before = run.totals_before();
        if before.last_sequence > totals.last_sequence {
            findings.add(format_args!(
                "the changes between number {} and {} are lost from the write-ahead log",
                totals.last_sequence, run.0.first_sequence
            ))?;
            let Totals { stored_from, history_from, .. } = totals;
            totals = Totals { stored_from, history_from, ..before };
        }
        let applied = run.apply(totals).context("the write-ahead log cannot be applied");
        if let Some((memtable, after)) = findings.value_of(applied)? {
            memtables.push(memtable);
            totals = after;
        }
    }
    Ok((memtables, totals))
}

/// The newest run of consecutive groups, oldest first.
pub(crate) fn newest_run(groups: &[ChangeGroup]) -> Vec<ChangeGroup> {
    let newest = consecutive(groups.to_vec()).pop();
    newest.map_or_else(Vec::new, |run| [run.0].into_iter().chain(run.1).collect())
}

/// Consecutive groups: the first one, and the others.
struct ConsecutiveGroups(ChangeGroup, Vec<ChangeGroup>);

impl ConsecutiveGroups {
    fn last_sequence(&self) -> u64 {
        self.1.last().unwrap_or(&self.0).last_sequence()
    }

    fn totals_before(&self) -> Totals {
        self.0.totals_before()
    }

    /// Applies the groups after `totals` to a new memtable. Returns the memtable and the totals after it.
    fn apply(self, mut totals: Totals) -> anyhow::Result<(Memtable, Totals)> {
        let in_tables = totals.last_sequence;
        let mut memtable = Memtable::after(in_tables);
        for group in [self.0].into_iter().chain(self.1) {
            if group.last_sequence() > in_tables {
                ensure!(group.follows(&totals), "it does not follow the tables");
                totals = totals.after(&group)?;
                memtable.apply(&group)?;
            }
        }
        Ok((memtable, totals))
    }
}

/// Splits groups into runs of consecutive ones, oldest first.
fn consecutive(mut groups: Vec<ChangeGroup>) -> Vec<ConsecutiveGroups> {
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let mut runs: Vec<ConsecutiveGroups> = Vec::new();
    for group in groups {
        match runs.last_mut() {
            Some(run) if run.last_sequence() + 1 == group.first_sequence => run.1.push(group),
            _ => runs.push(ConsecutiveGroups(group, Vec::new())),
        }
    }
    runs
}
