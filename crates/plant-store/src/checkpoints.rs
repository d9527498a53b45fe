//! Checkpoints: how far the readers of events have come that must not lose their place.

use async_trait::async_trait;

use crate::StoreError;

/// Keeps a few kilobytes for each of several names, beside the plants. One process at a time holds a name, and only that
/// process can save its bytes. It holds the name until it ends, or loses its connection with the store.
///
/// A backup does not contain checkpoints: a restored database has another log of events.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// Takes a name, unless another process holds it. Call this every few seconds to notice the end of that process, or
    /// a lost connection.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the checkpoint cannot be read, or an earlier save still cannot be made durable.
    async fn hold(&self, name: &str) -> Result<Checkpoint, StoreError>;

    /// Saves the bytes of a name that [`Self::hold`] has taken. When this returns `true`, they are durable. Returns `false`,
    /// with nothing saved, if this process no longer holds the name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the outcome is unknown.
    async fn save(&self, name: &str, content: Vec<u8>) -> Result<bool, StoreError>;

    /// Forgets the names that this process holds, except these. A process that can share its store with others does not
    /// forget names of processes that have ended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when some may not be forgotten.
    async fn retain(&self, names: Vec<String>) -> Result<(), StoreError>;
}

/// What [`Checkpoints::hold`] has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whether this process holds the name.
    pub is_held: bool,
    /// The bytes that were saved last; empty at first.
    pub content: Vec<u8>,
}
