//! Where the database is, and how much it may use.

use std::path::PathBuf;

use crate::EventRetention;

/// The default of [`SledConfig::cache_mib`].
pub const DEFAULT_CACHE_MIB: u64 = 64;

/// The default of [`SledConfig::changes_in_memory`]. Large plants fill a segment of the write-ahead log, and so the
/// memtable, with fewer changes.
pub const DEFAULT_CHANGES_IN_MEMORY: usize = 131_072;

/// The default of [`SledConfig::plants_scanned_first`].
pub const DEFAULT_PLANTS_SCANNED_FIRST: usize = 2_000;

/// Where the database is, and how much it may use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SledConfig {
    /// The folder of the database. A missing folder is created with access for its owner only (mode 0700).
    pub directory: PathBuf,
    /// About how much memory the caches of the tables take, in MiB. sled keeps more of a large table: up to 150 MiB.
    pub cache_mib: u64,
    /// Which events are shown. A few more may be on the disk.
    pub retention: EventRetention,
    /// How many changes fill a memtable. The larger the memtables, the fewer tables there are to merge. Memory may hold
    /// twice as many: while one memtable is written as a table, the next one fills.
    pub changes_in_memory: usize,
    /// A filtered page scans at most this many plants, at least one, before it uses the search index: a scan fills a page
    /// with frequent matches faster. The scan ends early when matches are too rare to fill the page.
    pub plants_scanned_first: usize,
    /// The folder to which the write-ahead log is copied, if any: at the latest a second after a change. An archive that
    /// fails never stops the repository. A missing folder is created, but not its parents.
    pub archive: Option<PathBuf>,
    /// Whether the repository is ready only while the archive takes changes.
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
