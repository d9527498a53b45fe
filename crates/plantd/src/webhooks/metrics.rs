//! The metrics of webhooks.

use plant_http::{WebhookState, WebhookStatus, WebhookStatuses};
use plant_store::metrics::{MetricFamily, gauges};
use prometheus::core::{Collector, Desc};
use prometheus::{IntCounter, IntCounterVec, Opts};

const OUTCOMES: [&str; 4] = ["delivered", "refused", "gone", "no_answer"];

#[derive(Clone)]
pub(super) struct WebhookMetrics {
    deliveries: IntCounterVec,
}

/// The attempts of one webhook, by outcome.
pub(super) struct Attempts {
    pub(super) delivered: IntCounter,
    /// Answered by a status that is neither 2xx nor 410.
    pub(super) refused: IntCounter,
    /// Answered by 410.
    pub(super) gone: IntCounter,
    pub(super) no_answer: IntCounter,
}

impl WebhookMetrics {
    pub(super) fn new() -> anyhow::Result<Self> {
        let options = Opts::new(
            "plantd_webhook_deliveries_total",
            "Attempts to deliver changes to the receiver of a webhook, by outcome.",
        );
        Ok(Self { deliveries: IntCounterVec::new(options, &["webhook", "outcome"])? })
    }

    pub(super) fn of(&self, webhook: &str) -> Attempts {
        let of = |outcome| self.deliveries.with_label_values(&[webhook, outcome]);
        let [delivered, refused, gone, no_answer] = OUTCOMES.map(of);
        Attempts { delivered, refused, gone, no_answer }
    }

    /// Removes the series of a webhook.
    pub(super) fn forget(&self, webhook: &str) {
        for outcome in OUTCOMES {
            // If the series does not exist, there is nothing to forget.
            let _ = self.deliveries.remove_label_values(&[webhook, outcome]);
        }
    }
}

/// The metrics as the registry collects them.
pub(super) struct WebhookCollector {
    pub(super) metrics: WebhookMetrics,
    pub(super) statuses: WebhookStatuses,
}

impl Collector for WebhookCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.metrics.deliveries.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let statuses = (self.statuses)();
        let by_webhook = |name, help, value: fn(&WebhookStatus) -> Option<f64>| {
            let values = statuses.iter().filter_map(|it| Some((it.name.as_str(), value(it)?)));
            gauges(name, help, "webhook", values)
        };
        let mut families = self.metrics.deliveries.collect();
        families.extend([
            by_webhook(
                "plantd_webhook_lag_seconds",
                "How long ago the oldest change happened that a receiver lacks; 0 if it lacks none.",
                |status| Some(status.lag_seconds? as f64),
            ),
            by_webhook(
                "plantd_webhook_failing",
                "Whether the last attempt of a delivery failed: 1 or 0.",
                |status| {
                    let has_failed = [WebhookState::Failing, WebhookState::Gone];
                    Some(f64::from(u8::from(has_failed.contains(&status.state))))
                },
            ),
        ]);
        families
    }
}
