//! What all sorted maps share.

use std::fmt::Debug;
use std::sync::Arc;

use super::database::Map;

/// A key and its value. `None` is a tombstone, which removes the key.
pub(crate) type Entry<'a> = (&'a [u8], Option<&'a [u8]>);

/// A cursor over sorted entries.
pub(crate) trait Entries: Debug + Send {
    /// Moves to the next entry. Returns false after the last one. After an error, the next call continues after the
    /// damage.
    fn advance(&mut self) -> anyhow::Result<bool>;

    /// The current entry.
    fn entry(&self) -> Option<Entry<'_>>;
}

/// The sorted maps of a table or a memtable.
pub(crate) trait Level: Debug + Send + Sync {
    /// The entries of a map from a key on.
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries>;
}

/// A source of entries, map by map, in ascending key order.
pub(crate) trait EntrySource {
    /// Passes this many entries to the sink. Returns false after the last one. After an error, the next call continues
    /// after the damage.
    fn take(&mut self, entries: usize, sink: &mut impl EntrySink) -> anyhow::Result<bool>;
}

/// A sink for entries in ascending key order.
pub(crate) trait EntrySink {
    /// Adds an entry, whose key is greater than all before in its map. `None` is a tombstone.
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()>;
}
