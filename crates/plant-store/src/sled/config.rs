//! Where the database is, and how much it may use.

use std::path::PathBuf;
use std::time::Duration;

use crate::DEFAULT_KEEP_EVENTS;

/// The default of [`SledConfig::cache_mib`].
pub const DEFAULT_CACHE_MIB: u64 = 64;

/// The default of [`SledConfig::changes_in_memory`]. Large plants fill a segment of the write-ahead log, and so the
/// memtable, with fewer changes.
pub const DEFAULT_CHANGES_IN_MEMORY: usize = 131_072;

/// How long an open waits for a lock that another process is about to release.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(1);
pub(super) const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// sled's own folder, in the folder of the database.
pub(super) const SLED_DIRECTORY: &str = "sled";

/// Where the database is, and how much it may use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SledConfig {
    /// The folder of the database. A missing folder is created with access for its owner only (mode 0700).
    pub directory: PathBuf,
    /// The size of sled's cache, in MiB. The process takes several times as much memory.
    pub cache_mib: u64,
    /// How many of the newest events are shown. A few more may be kept.
    pub keep_events: u64,
    /// How many changes fill a memtable. The more changes a compaction takes at once, the less each costs. Memory
    /// may hold twice as many: while one memtable is compacted, the next one fills.
    pub changes_in_memory: usize,
}

impl SledConfig {
    /// A database in `directory`, with the defaults for everything else.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            cache_mib: DEFAULT_CACHE_MIB,
            keep_events: DEFAULT_KEEP_EVENTS,
            changes_in_memory: DEFAULT_CHANGES_IN_MEMORY,
        }
    }
}
