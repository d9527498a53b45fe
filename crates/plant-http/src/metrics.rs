//! The metrics of requests: their rate, errors and duration by route (the RED method).
//!
//! Labels have only values that the code lists, so that no client makes the number of series grow.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_http::StatusCode;
use plant_store::metrics::MetricFamily;
use prometheus::core::Collector;
use prometheus::proto::{Counter, Metric};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

use crate::errors::ErrorNumber;

/// From a read from memory to a long import, in seconds.
const REQUEST_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// The classes of statuses. Without a status, the client disconnected before its answer began.
const STATUS_CLASSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "none"];

/// The labels of requests that no handler is for: unknown paths, and methods that a path does not have.
const OTHER: &str = "other";

/// What a service measures. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    threads: Arc<Mutex<Vec<RequestMetrics>>>,
    /// For the metrics of the program around the service.
    pub(crate) registry: Registry,
}

/// The counts of one thread. Threads that count in the same memory slow each other: on two processors, one histogram for both
/// took 4 % of the reads by id.
#[derive(Clone, Debug)]
pub(crate) struct RequestMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    errors: IntCounterVec,
}

/// The metrics of one method of a route.
#[derive(Debug)]
pub(crate) struct EndpointMetrics {
    requests: [IntCounter; STATUS_CLASSES.len()],
    seconds: Histogram,
}

impl Metrics {
    /// New counts for a thread.
    pub(crate) fn of_thread(&self) -> RequestMetrics {
        let metrics = RequestMetrics::default();
        self.threads().push(metrics.clone());
        metrics
    }

    /// The metrics of the registry, and the counts of all threads together.
    pub(crate) fn collect(&self) -> Vec<MetricFamily> {
        let of_threads: Vec<_> = self.threads().iter().map(RequestMetrics::collect).collect();
        let mut families = self.registry.gather();
        families.extend(of_threads.into_iter().reduce(sum).unwrap_or_default());
        families
    }

    fn threads(&self) -> MutexGuard<'_, Vec<RequestMetrics>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sum of the same metrics of two threads. One of them may have more series.
fn sum(one: Vec<MetricFamily>, other: Vec<MetricFamily>) -> Vec<MetricFamily> {
    let add = |(mut one, mut other): (MetricFamily, MetricFamily)| {
        let mut series: BTreeMap<Vec<String>, Metric> = BTreeMap::new();
        for metric in one.take_metric().into_iter().chain(other.take_metric()) {
            let labels = metric.get_label().iter();
            // Each series of a metric has the same names.
            match series.entry(labels.map(|label| label.value().to_owned()).collect()) {
                Entry::Vacant(place) => drop(place.insert(metric)),
                Entry::Occupied(mut sum) => add_to(sum.get_mut(), &metric),
            }
        }
        one.set_metric(series.into_values().collect());
        one
    };
    one.into_iter().zip(other).map(add).collect()
}

/// Adds a counter or a histogram to another one.
fn add_to(sum: &mut Metric, metric: &Metric) {
    let mut counter = Counter::default();
    counter.set_value(sum.get_counter().get_value() + metric.get_counter().get_value());
    sum.set_counter(counter);
    let (one, other) = (sum.get_histogram(), metric.get_histogram());
    let buckets = one.get_bucket().iter().zip(other.get_bucket()).map(|(one, other)| {
        let mut bucket = one.clone();
        bucket.set_cumulative_count(one.cumulative_count() + other.cumulative_count());
        bucket
    });
    let mut histogram = one.clone();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(one.get_sample_count() + other.get_sample_count());
    histogram.set_sample_sum(one.get_sample_sum() + other.get_sample_sum());
    sum.set_histogram(histogram);
}

impl Default for RequestMetrics {
    fn default() -> Self {
        let requests = Opts::new(
            "plantd_http_requests_total",
            "Requests, by the class of the status of their answer (\"none\" if the client left before the answer began). HEAD counts as GET. The files of the pages are the route \"page\", and what no handler is for is \"other\".",
        );
        let seconds = HistogramOpts::new(
            "plantd_http_request_duration_seconds",
            "From the head of a request to the end of its answer, in seconds. A stream of events lasts as long as its client stays.",
        );
        let errors = Opts::new(
            "plantd_http_errors_total",
            "Answers with an error, by its number in docs/api.md; 5001 also counts answers that broke off.",
        );
        let metrics = Self {
            requests: IntCounterVec::new(requests, &["route", "method", "status_class"])
                .expect("a counter"),
            seconds: HistogramVec::new(
                seconds.buckets(REQUEST_BUCKETS.to_vec()),
                &["route", "method"],
            )
            .expect("a histogram"),
            errors: IntCounterVec::new(errors, &["error"]).expect("a counter"),
        };
        // Exported before the first error, so that its rate is known from the start.
        for number in ErrorNumber::ALL {
            metrics.of_error(*number);
        }
        metrics
    }
}

impl RequestMetrics {
    /// The metrics of requests with this method at a route.
    pub(crate) fn endpoint(&self, route: &str, method: &str) -> EndpointMetrics {
        let requests = |status| self.requests.with_label_values(&[route, method, status]);
        EndpointMetrics {
            requests: STATUS_CLASSES.map(requests),
            seconds: self.seconds.with_label_values(&[route, method]),
        }
    }

    /// The metrics of requests that no handler is for.
    pub(crate) fn other(&self) -> EndpointMetrics {
        self.endpoint(OTHER, OTHER)
    }

    pub(crate) fn of_error(&self, number: ErrorNumber) -> IntCounter {
        self.errors.with_label_values(&[(number as i32).to_string().as_str()])
    }

    /// The requests, their durations and the errors, in this order.
    fn collect(&self) -> Vec<MetricFamily> {
        let metrics: [&dyn Collector; 3] = [&self.requests, &self.seconds, &self.errors];
        metrics.iter().flat_map(|metric| metric.collect()).collect()
    }
}

impl EndpointMetrics {
    /// Counts a request that has ended.
    pub(crate) fn note(&self, status: Option<StatusCode>, took: Duration) {
        let class = match status.map(|status| status.as_u16()) {
            Some(..300) => 0,
            Some(300..400) => 1,
            Some(400..500) => 2,
            Some(500..) => 3,
            None => 4,
        };
        self.requests[class].inc();
        self.seconds.observe(took.as_secs_f64());
    }
}
