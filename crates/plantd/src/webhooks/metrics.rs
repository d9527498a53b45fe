//! The metrics of webhooks.

use plant_store::metrics::{MetricFamily, gauges};
use prometheus::core::{Collector, Desc};
use prometheus::{IntCounterVec, Opts};

use crate::webhooks::Statuses;

/// How an attempt of a delivery ended.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    Delivered,
    /// Another status than 2xx.
    Refused,
    /// 410: the receiver wants no more.
    Gone,
    NoAnswer,
}

#[derive(Clone)]
pub(super) struct WebhookMetrics {
    deliveries: IntCounterVec,
}

impl WebhookMetrics {
    pub(super) fn new() -> anyhow::Result<Self> {
        let options = Opts::new(
            "plantd_webhook_deliveries_total",
            "Attempts to deliver changes to the receiver of a webhook, by outcome.",
        );
        Ok(Self { deliveries: IntCounterVec::new(options, &["webhook", "outcome"])? })
    }

    pub(super) fn note(&self, webhook: &str, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Delivered => "delivered",
            Outcome::Refused => "refused",
            Outcome::Gone => "gone",
            Outcome::NoAnswer => "no_answer",
        };
        self.deliveries.with_label_values(&[webhook, outcome]).inc();
    }
}

/// The metrics as the registry collects them.
pub(super) struct WebhookCollector {
    pub(super) metrics: WebhookMetrics,
    pub(super) statuses: Statuses,
}

impl Collector for WebhookCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.metrics.deliveries.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let statuses = (self.statuses)();
        let lag = statuses.iter().filter_map(|it| Some((it.name.as_str(), it.lag_seconds? as f64)));
        let lag = gauges(
            "plantd_webhook_lag_seconds",
            "For how long the oldest change that a receiver lacks has been waiting.",
            "webhook",
            lag,
        );
        let mut families = self.metrics.deliveries.collect();
        families.push(lag);
        families
    }
}
