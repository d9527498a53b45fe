//! Back-pressure: delays groups so that compaction keeps up.
//!
//! Without it, all writes would stop whenever the active memtable fills up before the immutable one is flushed.
//! Instead, each group waits early and briefly (RocksDB calls this delayed writes). Reads never wait.

use std::time::Duration;

/// The longest wait of a group.
const DELAY_MAX: Duration = Duration::from_millis(10);

/// While a memtable is being flushed, groups wait once the next one is this full.
const FULL_FROM: f64 = 0.25;

/// Groups wait while there are more tables than this, because merges then lag behind.
const TABLES_FROM: usize = 20;

/// From this many tables on, the wait is the longest.
const TABLES_MAX: usize = 60;

/// The delay of the next group. `fill_ratio` says how full the active memtable is, from 0 to 1.
pub(crate) fn delay(is_flushing: bool, fill_ratio: f64, tables: usize) -> Duration {
    let of_flush = if is_flushing { (fill_ratio - FULL_FROM) / (1.0 - FULL_FROM) } else { 0.0 };
    let of_merges = tables.saturating_sub(TABLES_FROM) as f64 / (TABLES_MAX - TABLES_FROM) as f64;
    DELAY_MAX.mul_f64(of_flush.max(of_merges).clamp(0.0, 1.0))
}
