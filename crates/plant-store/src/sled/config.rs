//! The configuration of the engine.

use std::path::PathBuf;

use crate::EventRetention;

/// The default of [`SledConfig::cache_mib`].
pub const DEFAULT_CACHE_MIB: u64 = 64;

/// The default of [`SledConfig::changes_in_memory`]. Large plants fill a log segment, and so the memtable, with fewer
/// changes.
pub const DEFAULT_CHANGES_IN_MEMORY: usize = 131_072;

/// The default of [`SledConfig::plants_scanned_first`].
pub const DEFAULT_PLANTS_SCANNED_FIRST: usize = 2_000;

/// Where the database is, and how much it may use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SledConfig {
    /// The folder of the database. A missing folder is created with access for its owner only (mode 0700).
    pub directory: PathBuf,
    /// About how much memory the caches of all tables take, in MiB. sled keeps up to 150 MiB of a large table in any
    /// case.
    pub cache_mib: u64,
    /// Which events readers see. The disk may have a few more.
    pub retention: EventRetention,
    /// How many changes fill a memtable. Larger memtables mean fewer tables to merge. Memory may hold twice as many
    /// changes, because one memtable fills while the other is flushed.
    pub changes_in_memory: usize,
    /// A filtered page scans at most this many plants, at least one, before it uses the search index. If matches are
    /// frequent, a scan fills the page faster. The scan ends early if matches are too rare to fill the page.
    pub plants_scanned_first: usize,
    /// The folder of the archive, if any. It gets a copy of each change in the write-ahead log within a second. A
    /// failing archive never stops the repository. A missing folder is created, but not its parents.
    pub archive: Option<PathBuf>,
    /// Whether the repository counts as ready only while the archive takes changes.
    pub archive_required: bool,
}

impl SledConfig {
    /// The size of the caches of all tables, in bytes.
    pub(crate) const fn cache_bytes(&self) -> u64 {
        self.cache_mib.saturating_mul(1024 * 1024)
    }

    /// A database in `directory`, with the defaults for everything else.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            cache_mib: DEFAULT_CACHE_MIB,
            retention: EventRetention::default(),
            changes_in_memory: DEFAULT_CHANGES_IN_MEMORY,
            plants_scanned_first: DEFAULT_PLANTS_SCANNED_FIRST,
            archive: None,
            archive_required: false,
        }
    }
}
