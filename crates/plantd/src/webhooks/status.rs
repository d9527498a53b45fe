//! What is shown of webhooks.

use jiff::Timestamp;
use plant_http::{WebhookError, WebhookState, WebhookStatus};

use crate::webhooks::file::Webhook;
use crate::webhooks::progress::Progress;

pub(super) fn status(webhook: &Webhook, progress: &Progress) -> WebhookStatus {
    let state = if webhook.is_paused {
        WebhookState::Paused
    } else if progress.is_gone(webhook.times_resumed) {
        WebhookState::Gone
    } else if progress.failing.is_some() {
        WebhookState::Failing
    } else {
        WebhookState::Sending
    };
    let lag = progress.lag().filter(|_| !webhook.is_paused);
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
        lag_seconds: lag.map(|lag| lag.as_secs()),
        last_error,
    }
}
