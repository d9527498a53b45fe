//! Where the database is, and how much it may use.

use std::path::PathBuf;

use crate::EventRetention;

/// The default of [`DiskConfig::cache_mib`].
pub const DEFAULT_CACHE_MIB: u64 = 64;

/// The default of [`DiskConfig::changes_in_memory`]. Large plants fill a segment of the write-ahead log, and so the
/// memtable, with fewer changes.
pub const DEFAULT_CHANGES_IN_MEMORY: usize = 131_072;

/// The default of [`DiskConfig::plants_in_turn`].
pub const DEFAULT_PLANTS_IN_TURN: usize = 2_000;

/// Where the database is, and how much it may use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiskConfig {
    /// The folder of the database. A missing folder is created with access for its owner only (mode 0700).
    pub directory: PathBuf,
    /// The size of the cache of blocks, in MiB.
    pub cache_mib: u64,
    /// Which events are shown. A few more may be on the disk.
    pub retention: EventRetention,
    /// How many changes fill a memtable. The larger the memtables, the fewer tables there are to merge. Memory may hold
    /// twice as many: while one memtable is written as a table, the next one fills.
    pub changes_in_memory: usize,
    /// How many plants a page of a filter looks at one after the other, at least one, before it asks the search index. What many plants
    /// have fills a page at once, and the index would take longer.
    pub plants_in_turn: usize,
}

impl DiskConfig {
    /// A database in `directory`, with the defaults for everything else.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            cache_mib: DEFAULT_CACHE_MIB,
            retention: EventRetention::default(),
            changes_in_memory: DEFAULT_CHANGES_IN_MEMORY,
            plants_in_turn: DEFAULT_PLANTS_IN_TURN,
        }
    }
}
