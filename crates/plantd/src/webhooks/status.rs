//! What is shown of webhooks.

use std::sync::Arc;

use jiff::Timestamp;
use plant_http::{WebhookError, WebhookState, WebhookStatus};

use crate::webhooks::file::Webhook;
use crate::webhooks::progress::Progress;

/// What describes the webhooks at the moment of a call.
pub(crate) type Statuses = Arc<dyn Fn() -> Vec<WebhookStatus> + Send + Sync>;

pub(super) fn status(webhook: &Webhook, progress: &Progress) -> WebhookStatus {
    let state = if webhook.is_paused {
        WebhookState::Paused
    } else if progress.gone == Some(webhook.times_resumed) {
        WebhookState::Gone
    } else if progress.failures > 0 {
        WebhookState::Failing
    } else {
        WebhookState::Sending
    };
    let has_lag = progress.cursor.is_some() && !webhook.is_paused;
    let last_error = progress
        .last_error
        .as_ref()
        .map(|error| WebhookError { at: error.at.into(), message: error.message.clone() });
    WebhookStatus {
        name: webhook.name.clone(),
        origin: webhook.destination.origin(),
        kinds: webhook.kinds.clone(),
        plants: webhook.plants,
        state,
        last_success: progress.last_success.map(Timestamp::into),
        lag_seconds: has_lag.then(|| progress.lag().as_secs()),
        last_error,
    }
}
