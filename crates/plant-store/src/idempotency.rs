//! Recognizes a repeated create or batch.

use plant_domain::{NewPlant, PlantRef};
use sha2::{Digest, Sha256};

/// A digest of an idempotency key and of the plant, or the batch, that was sent with it.
///
/// A plant keeps the digest of its create. A later create with the same digest is a retry of that request: it gets the
/// same answer and writes nothing. The answer depends on the request alone, so no table of keys is needed. The results of
/// a batch with a key are stored under its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyDigest([u8; IdempotencyDigest::BYTES]);

impl IdempotencyDigest {
    /// The length in bytes: half of a SHA-256. 128 bits are enough to tell the requests of honest clients apart.
    /// (Forging a digest gains nothing: the holder of a token can store anything anyway.)
    pub const BYTES: usize = 16;

    /// The digest of `key`, as the client sent it, and of the plant sent with it.
    #[must_use]
    pub fn new(key: &str, new_plant: &NewPlant) -> Self {
        let mut hash = Sha256::new();
        // A later member may add bytes only where a plant has it, so that retries of older creates are still recognized.
        let PlantRef { name, tag } = new_plant.plant().members();
        // A length before each text keeps different inputs from hashing the same bytes.
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
        Self::of(hash)
    }

    /// The digest of `key` and of the text of a whole batch, both as the client sent them. A retry has the same bytes.
    #[must_use]
    pub fn of_batch(key: &str, text: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update((key.len() as u64).to_be_bytes());
        hash.update(key);
        hash.update(text);
        Self::of(hash)
    }

    fn of(hash: Sha256) -> Self {
        let mut digest = [0; Self::BYTES];
        digest.copy_from_slice(&hash.finalize()[..Self::BYTES]);
        Self(digest)
    }

    /// The bytes to store.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// The digest with these stored bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}
