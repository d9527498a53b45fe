//! Where the sequence numbers of a restored database begin.

use anyhow::ensure;

use crate::sled::keys::MAX_SEQUENCE;

/// The sequence numbers of a restored database begin at least so far above those of its backup: no store makes as many changes
/// in the life of a backup.
const MIN_SKIPPED: u64 = 1 << 44;

/// How far they begin above that is random, up to this part of all numbers that are left: so two databases that are restored
/// from one backup give out the same number with a chance below one in eight million, after a billion changes in each, and
/// thousands of restores can follow one another.
const SKIPPED_PART: u64 = 256;

/// The last sequence number of a database that is restored from one whose last number is `old`.
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
