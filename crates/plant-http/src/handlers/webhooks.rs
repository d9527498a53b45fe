//! The webhooks of the program that runs the service, as it describes them. The service itself sends nothing.

use std::sync::Arc;
use std::time::SystemTime;

use actix_web::HttpResponse;
use actix_web::web::Data;
use plant_store::EventKind;
use serde::{Serialize, Serializer};

use crate::extract::head::Head;
use crate::extract::query::NoQuery;
use crate::handlers::events::shown_event::as_time;

/// What describes the webhooks at the moment of a call.
pub type WebhookStatuses = Arc<dyn Fn() -> Vec<WebhookStatus> + Send + Sync>;

/// A webhook without its secrets, for clients that may write.
#[derive(Clone, Debug, Serialize)]
pub struct WebhookStatus {
    /// The name that tells webhooks apart.
    pub name: String,
    /// Scheme, host and port of the receiver, because the path of a URL may hold a secret.
    pub origin: String,
    /// The kinds of events that are sent.
    pub kinds: Vec<EventKind>,
    /// Whether events are sent with their plants.
    pub plants: bool,
    /// Whether events are sent now.
    pub state: WebhookState,
    /// When the receiver last accepted a delivery.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_time_of_success")]
    pub last_success: Option<SystemTime>,
    /// For how long the oldest event that the receiver lacks has been waiting; 0 if it lacks none, `None` before the webhook has
    /// begun and while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<u64>,
    /// What went wrong last, if anything did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<WebhookError>,
}

/// Whether a webhook sends events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WebhookState {
    /// Events are sent as they happen.
    Sending,
    /// The last attempt failed, and is repeated.
    Failing,
    /// An administrator has paused it.
    Paused,
    /// It is paused because the receiver answered 410 (Gone).
    Gone,
}

impl WebhookState {
    /// The name of the state, as clients see it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Failing => "failing",
            Self::Paused => "paused",
            Self::Gone => "gone",
        }
    }
}

/// Why an attempt of a webhook failed.
#[derive(Clone, Debug, Serialize)]
pub struct WebhookError {
    /// When it failed.
    #[serde(serialize_with = "as_time")]
    pub at: SystemTime,
    /// What went wrong, for people.
    pub message: String,
}

#[derive(Serialize)]
struct WebhookList {
    webhooks: Vec<WebhookStatus>,
}

/// `GET /webhooks`.
pub(crate) async fn list(webhooks: Data<WebhookStatuses>, _: Head<NoQuery>) -> HttpResponse {
    HttpResponse::Ok().json(WebhookList { webhooks: webhooks() })
}

#[expect(clippy::ref_option, reason = "serde passes the field")]
fn as_time_of_success<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_time(time, serializer),
        None => serializer.serialize_none(),
    }
}
