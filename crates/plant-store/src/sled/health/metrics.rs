//! The metrics of the repository on disk.

use prometheus::core::Collector;
use prometheus::{Counter, CounterVec, Histogram, HistogramOpts, HistogramVec, Opts};

use crate::metrics::{CommitMetrics, MetricFamily, gauge, gauges, histogram, with_series};
use crate::sled::commit::write_ahead_log::LOG_BYTES;
use crate::sled::health::disk_space::{DiskSpace, RESERVE_BYTES};
use crate::sled::tables::{Map, Table};
use crate::sled::tree::MergeTree;

/// Bounds in seconds, from a fast disk to one that hardly answers.
const SYNC_BUCKETS: &[f64] = &[0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0];

/// Bounds in seconds, from a short delay to a disk that hardly answers.
const STALL_BUCKETS: &[f64] = &[0.001, 0.01, 0.1, 1.0, 10.0];

#[derive(Debug)]
pub(crate) struct EngineMetrics {
    pub(crate) commit: CommitMetrics,
    pub(crate) sync_seconds: Histogram,
    compaction_seconds: CounterVec,
    pub(crate) flush_seconds: Counter,
    pub(crate) merge_seconds: Counter,
    stall_seconds: HistogramVec,
    /// Short waits that let compaction keep up.
    pub(crate) delayed_seconds: Histogram,
    /// Waits for a flush, because the active memtable or its log segment is full.
    pub(crate) stopped_seconds: Histogram,
}

impl Default for EngineMetrics {
    fn default() -> Self {
        let compaction = Opts::new(
            "plantd_compaction_busy_seconds_total",
            "Seconds spent on writing memtables as tables (flush), and on merging tables (merge).",
        );
        let (compaction_seconds, [flush_seconds, merge_seconds]) =
            with_series(CounterVec::new(compaction, &["kind"]), ["flush", "merge"]);
        let stalls = HistogramOpts::new(
            "plantd_write_stall_seconds",
            "Seconds that a group of writes waited for compaction: slowed down (delayed), or halted (stopped).",
        );
        let stalls = HistogramVec::new(stalls.buckets(STALL_BUCKETS.to_vec()), &["kind"]);
        let (stall_seconds, [delayed_seconds, stopped_seconds]) =
            with_series(stalls, ["delayed", "stopped"]);
        Self {
            commit: CommitMetrics::default(),
            sync_seconds: histogram(
                "plantd_write_ahead_log_sync_seconds",
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

impl EngineMetrics {
    /// All metrics but those of the commit.
    pub(crate) fn collect(
        &self,
        tree: &MergeTree,
        disk_space: &DiskSpace,
        is_stopped: bool,
    ) -> Vec<MetricFamily> {
        let collectors: [&dyn Collector; 3] =
            [&self.sync_seconds, &self.compaction_seconds, &self.stall_seconds];
        let mut families: Vec<_> = collectors.iter().flat_map(|it| it.collect()).collect();
        let changes = tree.read().changes_in_memory();
        let tables = tree.tables();
        let sum = |bytes: fn(&Table) -> u64| -> f64 {
            tables.iter().map(|table| bytes(table)).sum::<u64>() as f64
        };
        let search_index = sum(|table| table.contents(Map::Search).bytes);
        let entries = sum(Table::block_bytes) - search_index;
        let other = sum(|table| table.metadata.bytes) - entries - search_index;
        families.extend([
            gauge("plantd_memtable_changes", "Changes that are in no table yet.", changes as f64),
            gauge("plantd_tables", "How many tables the plants are in.", tables.len() as f64),
            gauges(
                "plantd_disk_used_bytes",
                "The parts of the database, in bytes: the write-ahead log (of a fixed size), the entries of all tables (plants, events, counts), \
                 their search index, and the rest of them.",
                "part",
                [
                    ("write_ahead_log", LOG_BYTES as f64),
                    ("entries", entries),
                    ("search_index", search_index),
                    ("other", other),
                ],
            ),
            gauge(
                "plantd_writes_stopped",
                "1 while writes wait until compaction has made room, else 0.",
                f64::from(u8::from(is_stopped)),
            ),
            gauge(
                "plantd_disk_reserve_bytes",
                "With fewer free bytes than this, writes are refused.",
                RESERVE_BYTES as f64,
            ),
        ]);
        if let Some(free) = disk_space.last_free_bytes() {
            families.push(gauge(
                "plantd_disk_free_bytes",
                "Free bytes on the file system of the database.",
                free as f64,
            ));
        }
        families
    }
}
