//! What repositories measure, in the terms of Prometheus.
//!
//! The metrics are those of the crate prometheus 0.14. Their names begin with `plantd_`, and end with their unit, or with `_total`
//! if they only grow.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts,
};

pub use prometheus::proto::MetricFamily;

/// From a fast disk to one that hardly answers, in seconds.
const COMMIT_BUCKETS: &[f64] = &[0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];

/// From a write alone to the largest group.
const GROUP_BUCKETS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// What every repository with group commit measures.
#[derive(Debug)]
pub struct CommitMetrics {
    group_writes: Histogram,
    seconds: Histogram,
}

impl Default for CommitMetrics {
    fn default() -> Self {
        Self {
            group_writes: histogram(
                "plantd_commit_group_writes",
                "How many writes were decided and committed together.",
                GROUP_BUCKETS,
            ),
            seconds: histogram(
                "plantd_commit_seconds",
                "From the beginning of a group until its changes are durable, in seconds.",
                COMMIT_BUCKETS,
            ),
        }
    }
}

impl CommitMetrics {
    /// Adds a group that was committed.
    pub fn note_group(&self, writes: usize, took: Duration) {
        self.group_writes.observe(writes as f64);
        self.seconds.observe(took.as_secs_f64());
    }

    /// The metrics, with the length of the queue and the length at which writes are refused.
    #[must_use]
    pub fn collect(&self, queue_length: usize, queue_capacity: usize) -> Vec<MetricFamily> {
        let mut families = vec![
            gauge(
                "plantd_commit_queue_length",
                "How many writes wait for their group.",
                queue_length as f64,
            ),
            gauge(
                "plantd_commit_queue_capacity",
                "With this many waiting writes, further ones are refused with 503.",
                queue_capacity as f64,
            ),
        ];
        families.extend(self.group_writes.collect());
        families.extend(self.seconds.collect());
        families
    }
}

/// A gauge with this value.
///
/// # Panics
///
/// When the name is no name of a metric.
#[must_use]
pub fn gauge(name: &str, help: &str, value: f64) -> MetricFamily {
    let gauge = Gauge::new(name, help).expect("a name of a metric");
    gauge.set(value);
    gauge.collect().remove(0)
}

/// A gauge that has a label, with its values.
///
/// # Panics
///
/// When a name is no name of a metric or of a label.
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
/// When the name is no name of a metric.
#[must_use]
pub fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).expect("a name of a metric")
}

/// A counter that has a label, for all its values, so that each is exported before its first event.
///
/// # Panics
///
/// When a name is no name of a metric or of a label.
#[must_use]
pub fn counters<const N: usize>(
    name: &str,
    help: &str,
    label: &str,
    values: [&str; N],
) -> IntCounterVec {
    let counters = IntCounterVec::new(Opts::new(name, help), &[label]).expect("counters");
    for value in values {
        counters.with_label_values(&[value]);
    }
    counters
}

/// A histogram without labels.
///
/// # Panics
///
/// When the name is no name of a metric, or the buckets are not in order.
#[must_use]
pub fn histogram(name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    Histogram::with_opts(options).expect("a histogram")
}

/// Histograms that have a label, for all its values, so that each is exported before its first observation.
///
/// # Panics
///
/// When a name is no name of a metric or of a label, or the buckets are not in order.
#[must_use]
pub fn histograms<const N: usize>(
    name: &str,
    help: &str,
    buckets: &[f64],
    label: &str,
    values: [&str; N],
) -> (HistogramVec, [Histogram; N]) {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    let histograms = HistogramVec::new(options, &[label]).expect("histograms");
    let each = values.map(|value| histograms.with_label_values(&[value]));
    (histograms, each)
}
