//! The metrics of requests: their rate, errors and duration by route (the RED method).
//!
//! Labels have only values that the code lists, so that no client makes the number of series grow.

use std::time::Duration;

use actix_http::StatusCode;
use prometheus::core::Collector;
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
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    errors: IntCounterVec,
    /// Has these metrics, and those of the program around the service.
    pub(crate) registry: Registry,
}

/// The metrics of one method of a route.
#[derive(Debug)]
pub(crate) struct EndpointMetrics {
    requests: [IntCounter; STATUS_CLASSES.len()],
    seconds: Histogram,
}

impl Default for Metrics {
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
            registry: Registry::new(),
        };
        let collectors: [Box<dyn Collector>; 3] = [
            Box::new(metrics.requests.clone()),
            Box::new(metrics.seconds.clone()),
            Box::new(metrics.errors.clone()),
        ];
        for collector in collectors {
            metrics.registry.register(collector).expect("the registry is empty");
        }
        // Exported before the first error, so that its rate is known from the start.
        for number in ErrorNumber::ALL {
            metrics.of_error(*number);
        }
        metrics
    }
}

impl Metrics {
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
