//! Where the sequence numbers of a restored database begin.

use anyhow::ensure;

use crate::sled::keys::MAX_SEQUENCE;

/// The sequence numbers of a restored database begin at least this far above those of its backup. No store makes as
/// many changes while its backup is of use.
const MIN_SKIPPED: u64 = 1 << 44;

/// The numbers skipped beyond that are random, up to this fraction of all that are left. After a billion changes in
/// each, two databases restored from one backup share a number with a probability below one in eight million; and
/// thousands of restores can follow one another.
const SKIPPED_PART: u64 = 256;

/// The last sequence number of a restored database. `old` is the last one of its backup.
pub(super) fn sequence_after(old: u64, random: u64) -> anyhow::Result<u64> {
    let begin = old + MIN_SKIPPED;
    let left = MAX_SEQUENCE.saturating_sub(begin) / SKIPPED_PART;
    ensure!(left > MIN_SKIPPED, "there are no sequence numbers left after {old}");
    Ok(begin + random % left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_restore_begins_far_above_its_backup_and_thousands_can_follow_one_another() {
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            let mut last = 1_000_000;
            for _ in 0..2_000 {
                let next = sequence_after(last, random).expect("numbers are left");
                assert!(next - last >= MIN_SKIPPED && next < MAX_SEQUENCE, "{last}, {next}");
                last = next + 1_000_000;
            }
        }
        sequence_after(MAX_SEQUENCE, 0).expect_err("no numbers are left");
    }
}
