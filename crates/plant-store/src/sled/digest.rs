//! A digest of many entries that does not depend on their order.

use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The sum of the hashes of entries, modulo 2^64. Digests of different entries are equal with a chance of one in 2^64;
/// they do not guard against an attacker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlantsDigest(u64);

impl PlantsDigest {
    /// The digest of one entry. Digests are on disk, so the hash must never change.
    pub(super) fn of(key: &[u8], value: &[u8]) -> Self {
        Self(xxh3_64_with_seed(value, xxh3_64(key)))
    }
}

impl Add for PlantsDigest {
    type Output = Self;

    /// The digest of the entries of both.
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl AddAssign for PlantsDigest {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for PlantsDigest {
    type Output = Self;

    /// The digest without the entries of the other.
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_an_entry_is_the_same_in_every_version() {
        // XXH3 has a path for each range of lengths.
        for (length, digest) in [
            (0, 3_631_226_311_945_554_131),
            (3, 11_029_246_363_082_579_538),
            (100, 1_989_054_143_599_635_995),
            (1_000, 10_415_174_115_763_034_001),
        ] {
            assert_eq!(
                PlantsDigest::of(b"key", &vec![7; length]),
                PlantsDigest(digest),
                "{length}"
            );
        }
    }
}
