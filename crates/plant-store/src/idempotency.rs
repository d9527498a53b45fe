//! Recognizes a repeated create.

use plant_domain::NewPlant;
use sha2::{Digest, Sha256};

/// A digest of an idempotency key and of the plant that was sent with it.
///
/// A plant keeps the digest of its create. A later create with the same digest is the same request sent again: it gets the
/// same answer and writes nothing. No table of keys is needed, because the answer is a function of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyDigest([u8; IdempotencyDigest::BYTES]);

impl IdempotencyDigest {
    /// The length in bytes: half of a SHA-256. 128 bits tell the requests of honest clients apart. (The holder of a token
    /// can store anything without forging a digest.)
    pub const BYTES: usize = 16;

    /// The digest of `key`, as the client sent it, and of the plant sent with it.
    #[must_use]
    pub fn new(key: &str, new_plant: &NewPlant) -> Self {
        let mut hash = Sha256::new();
        let (name, tag) = new_plant.plant().members();
        // The length before each text keeps different inputs from becoming the same bytes.
        for text in [Some(key), Some(name), tag] {
            match text {
                Some(text) => {
                    hash.update([1]);
                    hash.update((text.len() as u64).to_be_bytes());
                    hash.update(text);
                }
                None => hash.update([0]),
            }
        }
        hash.update(new_plant.id().get().to_be_bytes());

        let mut digest = [0; Self::BYTES];
        digest.copy_from_slice(&hash.finalize()[..Self::BYTES]);
        Self(digest)
    }

    /// The bytes that a store keeps.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// The digest from the bytes that a store has kept.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}
