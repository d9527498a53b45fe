//! What all sorted maps have in common.

use std::fmt::Debug;
use std::sync::Arc;

use super::database::Map;

/// A key, and its value; `None` removes the key.
pub(crate) type Entry<'a> = (&'a [u8], Option<&'a [u8]>);

/// Sorted entries that are read in turn.
pub(crate) trait Entries: Debug + Send {
    /// Moves to the next entry. Returns false after the last one. After an error, the next call continues behind the
    /// damage.
    fn advance(&mut self) -> anyhow::Result<bool>;

    /// The current entry.
    fn entry(&self) -> Option<Entry<'_>>;
}

/// Sorted maps of one age: a table, or a memtable.
pub(crate) trait Level: Debug + Send + Sync {
    /// The entries of a map from a key on.
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries>;
}

/// Hands out entries map by map, each by ascending key.
pub(crate) trait EntrySource {
    /// Goes over so many entries, and hands them to the sink. Returns false after the last one. After an error, the next call
    /// continues behind the damage.
    fn take(&mut self, entries: usize, sink: &mut impl EntrySink) -> anyhow::Result<bool>;
}

/// Takes entries by ascending key.
pub(crate) trait EntrySink {
    /// Adds an entry whose key is greater than all before in its map; a value of `None` removes the key.
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()>;
}
