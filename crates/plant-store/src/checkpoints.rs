//! Checkpoints: how far the readers of events have come that must not lose their place.

use async_trait::async_trait;

use crate::StoreError;

/// Keeps a few bytes for each of several names, beside the plants. One process at a time holds a name, with a lease, and
/// only that process can save its bytes.
///
/// A backup does not contain checkpoints: a restored database has another log of events.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// Takes the lease of a name, or renews it. The lease lasts for [`CHECKPOINT_LEASE_SECONDS`], or until this process
    /// ends if no other process can use the store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the checkpoint cannot be read.
    async fn hold(&self, name: &str) -> Result<Checkpoint, StoreError>;

    /// Saves the bytes of a name, and renews the lease. When this returns `true`, they are durable. Returns `false`, with
    /// nothing saved, if this process does not hold the name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the outcome is unknown.
    async fn save(&self, name: &str, content: Vec<u8>) -> Result<bool, StoreError>;

    /// Forgets the checkpoints of other names, except those that another process has held within the last day.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when some may not be forgotten.
    async fn retain(&self, names: Vec<String>) -> Result<(), StoreError>;
}

/// How long another process that uses the same store must wait, in seconds, after the last renewal of a lease.
pub const CHECKPOINT_LEASE_SECONDS: u64 = 20;

/// What [`Checkpoints::hold`] has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whether this process now holds the name.
    pub is_held: bool,
    /// The bytes that were saved last; empty at first.
    pub content: Vec<u8>,
}
