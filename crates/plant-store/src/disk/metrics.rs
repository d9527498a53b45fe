//! What the repository on disk measures.

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramVec};

use super::cache::BlockCache;
use super::room::{RESERVE_BYTES, Room};
use super::table::Table;
use super::tree::MergeTree;
use super::write_ahead_log::LOG_BYTES;
use crate::metrics::{CommitMetrics, MetricFamily, gauge, gauges, histogram, histograms};

/// From a fast disk to one that hardly answers, in seconds.
const SYNC_BUCKETS: &[f64] = &[0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0];

/// From a small table to a merge of everything, in seconds.
const COMPACTION_BUCKETS: &[f64] = &[0.05, 0.25, 1.0, 5.0, 30.0, 300.0];

/// From a short delay to a disk that hardly answers, in seconds.
const STALL_BUCKETS: &[f64] = &[0.001, 0.01, 0.1, 1.0, 10.0];

#[derive(Debug)]
pub(super) struct DiskMetrics {
    pub(super) commit: CommitMetrics,
    pub(super) log_sync_seconds: Histogram,
    compaction_seconds: HistogramVec,
    pub(super) flush_seconds: Histogram,
    pub(super) merge_seconds: Histogram,
    stall_seconds: HistogramVec,
    /// Short waits, so that compaction keeps up.
    pub(super) delayed_seconds: Histogram,
    /// Waits while neither the memtable nor the log has room.
    pub(super) stopped_seconds: Histogram,
}

impl Default for DiskMetrics {
    fn default() -> Self {
        let (compaction_seconds, [flush_seconds, merge_seconds]) = histograms(
            "plantd_compaction_seconds",
            "Writing a memtable as a table (flush), or merging tables (merge), from begin to end, in seconds.",
            COMPACTION_BUCKETS,
            "kind",
            ["flush", "merge"],
        );
        let (stall_seconds, [delayed_seconds, stopped_seconds]) = histograms(
            "plantd_write_stall_seconds",
            "Waits of groups of writes for compaction: shortly (delayed), or until there was room (stopped), in seconds.",
            STALL_BUCKETS,
            "kind",
            ["delayed", "stopped"],
        );
        Self {
            commit: CommitMetrics::default(),
            log_sync_seconds: histogram(
                "plantd_log_sync_seconds",
                "Writing and syncing a record of the write-ahead log, in seconds.",
                SYNC_BUCKETS,
            ),
            compaction_seconds,
            flush_seconds,
            merge_seconds,
            stall_seconds,
            delayed_seconds,
            stopped_seconds,
        }
    }
}

impl DiskMetrics {
    /// All metrics but those of the commit.
    pub(super) fn collect(
        &self,
        tree: &MergeTree,
        cache: &BlockCache,
        room: &Room,
    ) -> Vec<MetricFamily> {
        let histograms: [&dyn Collector; 3] =
            [&self.log_sync_seconds, &self.compaction_seconds, &self.stall_seconds];
        let mut families: Vec<_> = histograms.iter().flat_map(|it| it.collect()).collect();
        let changes = tree.read().active_changes();
        let tables = tree.tables();
        let sum = |bytes: fn(&Table) -> u64| -> f64 {
            tables.iter().map(|table| bytes(table)).sum::<u64>() as f64
        };
        let entries = sum(|table| table.layout.entry_bytes());
        let search_index = sum(|table| table.layout.index_bytes());
        let other = sum(|table| table.metadata.bytes) - entries - search_index;
        families.extend([
            gauge("plantd_memtable_changes", "How many changes are in no table yet.", changes as f64),
            gauge("plantd_tables", "How many tables the plants are in.", tables.len() as f64),
            gauges(
                "plantd_disk_used_bytes",
                "The parts of the database: the write-ahead log (of a fixed size), and of all tables the entries (plants, events, \
                 counts), the search index, and the rest.",
                "part",
                [
                    ("write_ahead_log", LOG_BYTES as f64),
                    ("entries", entries),
                    ("search_index", search_index),
                    ("table_outlines", other),
                ],
            ),
            gauge("plantd_cache_bytes", "Blocks in the cache, in bytes.", cache.bytes() as f64),
            gauge(
                "plantd_disk_reserve_bytes",
                "With less free than this, writes are refused.",
                RESERVE_BYTES as f64,
            ),
        ]);
        if let Some(free) = room.last_free_bytes() {
            families.push(gauge(
                "plantd_disk_free_bytes",
                "What the file system of the database has free for this process, a moment ago.",
                free as f64,
            ));
        }
        families
    }
}
