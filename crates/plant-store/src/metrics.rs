//! The metrics of repositories.
//!
//! They have the types of the crate prometheus 0.14. Names begin with `plantd_`, and end with a unit, or with `_total`
//! for counters.

use std::time::Duration;

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, Opts};

pub use prometheus::proto::MetricFamily;

/// Bounds in seconds, from a fast disk to one that hardly answers.
const COMMIT_BUCKETS: &[f64] = &[0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];

/// Bounds from a single change to the largest group.
const GROUP_BUCKETS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// Bounds from a single write to the largest batch.
const BATCH_BUCKETS: &[f64] = &[1.0, 10.0, 100.0, 1000.0];

/// The metrics of every repository with group commit.
#[derive(Debug)]
pub struct CommitMetrics {
    group_changes: Histogram,
    seconds: Histogram,
    refused: IntCounter,
    batch_writes: Histogram,
}

impl Default for CommitMetrics {
    fn default() -> Self {
        Self {
            group_changes: histogram(
                "plantd_commit_group_changes",
                "Changes that were committed together.",
                GROUP_BUCKETS,
            ),
            seconds: histogram(
                "plantd_commit_seconds",
                "From the beginning of a commit until its changes are durable, in seconds.",
                COMMIT_BUCKETS,
            ),
            refused: counter(
                "plantd_commit_refused_total",
                "Writes that were refused with 503 because the commit queue was full.",
            ),
            batch_writes: histogram(
                "plantd_batch_writes",
                "Writes in the batches that were carried out.",
                BATCH_BUCKETS,
            ),
        }
    }
}

impl CommitMetrics {
    /// Counts a durable commit.
    pub fn note_commit(&self, changes: usize, took: Duration) {
        self.group_changes.observe(changes as f64);
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts a batch that was carried out.
    pub fn note_batch(&self, writes: usize) {
        self.batch_writes.observe(writes as f64);
    }

    /// Counts a write that was refused because the queue was full.
    pub fn note_refused(&self) {
        self.refused.inc();
    }

    /// The metrics, with the current length of the queue, the length from which writes are refused, and the number of
    /// snapshots.
    #[must_use]
    pub fn collect(
        &self,
        queue_length: usize,
        queue_capacity: usize,
        snapshots: usize,
    ) -> Vec<MetricFamily> {
        let collectors: [&dyn Collector; 4] =
            [&self.group_changes, &self.seconds, &self.refused, &self.batch_writes];
        let mut families: Vec<_> = collectors.iter().flat_map(|it| it.collect()).collect();
        families.extend([
            gauge(
                "plantd_commit_queue_length",
                "What waits to be committed: a write each, or a part of an import.",
                queue_length as f64,
            ),
            gauge(
                "plantd_commit_queue_capacity",
                "The length of the commit queue at which writes get 503.",
                queue_capacity as f64,
            ),
            gauge(
                "plantd_snapshots",
                "Exports in progress, each of which reads the plants of the moment when it began.",
                snapshots as f64,
            ),
        ]);
        families
    }
}

/// A gauge with this value.
///
/// # Panics
///
/// If the name is not a valid metric name.
#[must_use]
pub fn gauge(name: &str, help: &str, value: f64) -> MetricFamily {
    let gauge = Gauge::new(name, help).expect("a name of a metric");
    gauge.set(value);
    gauge.collect().remove(0)
}

/// A gauge with one label, and a value for each label value.
///
/// # Panics
///
/// If a name is not valid for a metric or a label.
#[must_use]
pub fn gauges<'a>(
    name: &str,
    help: &str,
    label: &str,
    values: impl IntoIterator<Item = (&'a str, f64)>,
) -> MetricFamily {
    let gauges = GaugeVec::new(Opts::new(name, help), &[label]).expect("names of a metric");
    for (of, value) in values {
        gauges.with_label_values(&[of]).set(value);
    }
    gauges.collect().remove(0)
}

/// A counter without labels.
///
/// # Panics
///
/// If the name is not a valid metric name.
#[must_use]
pub fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).expect("a name of a metric")
}

/// A histogram without labels.
///
/// # Panics
///
/// If the name is not a valid metric name, or the buckets are not in order.
#[must_use]
pub fn histogram(name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    Histogram::with_opts(options).expect("a histogram")
}

/// A metric with one label, and its series for these label values. Each series is exported before its first event.
///
/// # Panics
///
/// If a name is not valid for a metric or a label, or the metric has other labels.
#[must_use]
pub fn with_series<T: MetricVecBuilder, const N: usize>(
    metric: prometheus::Result<MetricVec<T>>,
    values: [&str; N],
) -> (MetricVec<T>, [T::M; N]) {
    let metric = metric.expect("names of a metric and of its label");
    let series = values.map(|value| metric.with_label_values(&[value]));
    (metric, series)
}
