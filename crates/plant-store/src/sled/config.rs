//! Where the database is, and what it may use.

use std::path::PathBuf;
use std::time::Duration;

use crate::DEFAULT_KEEP_EVENTS;

/// How much memory sled's cache takes unless something else is said, in MiB.
pub const DEFAULT_CACHE_MIB: u64 = 64;

/// How many changes gather in memory at most unless something else is said. Of large plants it is as many
/// less as a segment of the journal has room for.
pub const DEFAULT_CHANGES_IN_MEMORY: usize = 131_072;

/// For how long another process may still hold a lock that it is about to let go of.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(1);
pub(super) const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// sled's own folder, in the folder of the database.
pub(super) const SLED_DIRECTORY: &str = "sled";
/// Where the database is, and what it may use.
///
/// ```
/// let config = plant_store::SledConfig::new("plants");
/// assert_eq!(config.cache_mib, plant_store::DEFAULT_CACHE_MIB);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SledConfig {
    /// The folder of the database. It is made when it is not there, for the owner alone (0700).
    pub directory: PathBuf,
    /// How much memory sled's cache takes, in MiB. The process takes several times as much.
    pub cache_mib: u64,
    /// How many of the newest events are shown. A few more may be kept.
    pub keep_events: u64,
    /// How many changes gather in the journal and in memory before they go into sled, which makes less work
    /// of many than of few. There may be twice as many, while the first half goes there.
    pub changes_in_memory: usize,
}

impl SledConfig {
    /// A database in `directory`, with everything else as it is by default.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            cache_mib: DEFAULT_CACHE_MIB,
            keep_events: DEFAULT_KEEP_EVENTS,
            changes_in_memory: DEFAULT_CHANGES_IN_MEMORY,
        }
    }
}
