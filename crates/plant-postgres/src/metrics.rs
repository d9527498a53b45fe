//! The metrics of the repository in PostgreSQL.

use plant_store::metrics::{CommitMetrics, MetricFamily, counter, gauges};
use prometheus::IntCounter;
use prometheus::core::Collector as _;

use crate::sessions::SessionUsage;

#[derive(Debug)]
pub(super) struct PostgresMetrics {
    pub(super) commit: CommitMetrics,
    /// Groups that were retried.
    pub(super) retries: IntCounter,
}

impl Default for PostgresMetrics {
    fn default() -> Self {
        let retries = counter(
            "plantd_postgres_retries_total",
            "Groups of writes tried again, because PostgreSQL did not answer or another client changed the same plants.",
        );
        Self { commit: CommitMetrics::default(), retries }
    }
}

impl PostgresMetrics {
    /// All metrics but those of the commit.
    pub(super) fn collect(
        &self,
        writing: SessionUsage,
        reading: SessionUsage,
    ) -> Vec<MetricFamily> {
        let mut families = self.retries.collect();
        let pools = [("writing", writing), ("reading", reading)];
        families.extend([
            gauges(
                "plantd_postgres_sessions",
                "Open sessions with PostgreSQL.",
                "pool",
                pools.map(|(pool, usage)| (pool, usage.open as f64)),
            ),
            gauges(
                "plantd_postgres_sessions_in_use",
                "Sessions with PostgreSQL that are in use.",
                "pool",
                pools.map(|(pool, usage)| (pool, usage.in_use as f64)),
            ),
            gauges(
                "plantd_postgres_sessions_max",
                "How many sessions with PostgreSQL may be open.",
                "pool",
                pools.map(|(pool, usage)| (pool, usage.most as f64)),
            ),
        ]);
        families
    }
}
