//! The client of a receiver: one attempt of a delivery, and its answer.

use std::io::Read as _;
use std::time::Duration;

use ureq::http::{Request, StatusCode, header};
use ureq::{Agent, Timeout};

use crate::client::backoff::retry_after;
use crate::client::connection_problem::cause;
use crate::client::remote::agent_config;
use crate::webhooks::delivery::sign;
use crate::webhooks::destination::{Destination, PermittedAddresses};
use crate::webhooks::file::Webhook;

/// How long an attempt may take, from resolving the host to the end of the answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// How much of an answer is read, in bytes.
const ANSWER_MAX_BYTES: u64 = 4096;

/// For how long an idle connection is used again. Many servers close idle connections after 5 s, and a delivery that is sent
/// at that moment fails.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// Sends deliveries to the receiver of a webhook, one at a time over one connection.
pub(super) struct ReceiverClient {
    agent: Agent,
    destination: Destination,
}

/// What a receiver has answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    /// The first [`ANSWER_MAX_BYTES`] of the body.
    pub(super) body: Vec<u8>,
}

impl ReceiverClient {
    pub(super) fn new(destination: Destination) -> Self {
        let config = agent_config()
            .timeout_global(Some(ATTEMPT_TIMEOUT))
            .max_idle_connections(1)
            .max_idle_age(IDLE_MAX)
            .build();
        let resolver = PermittedAddresses(destination.clone());
        let connector = ureq::unversioned::transport::DefaultConnector::default();
        Self { agent: Agent::with_parts(config, connector, resolver), destination }
    }

    pub(super) const fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Sends a delivery, and waits for the answer. Blocks.
    pub(super) fn attempt(
        &self,
        webhook: &Webhook,
        id: &str,
        body: &str,
    ) -> anyhow::Result<Answer> {
        let request = Request::post(self.destination.url.as_str())
            .header(header::CONTENT_TYPE, "application/json");
        let request = sign(request, webhook, id, body)?.body(body)?;
        let response = self.agent.run(request).map_err(|error| match error {
            ureq::Error::Timeout(Timeout::Global) => {
                anyhow::anyhow!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs())
            }
            error => cause(error),
        })?;
        let (parts, body) = response.into_parts();
        let mut answer = Vec::new();
        // The status counts even if the rest of the answer breaks off.
        let _ = body.into_reader().take(ANSWER_MAX_BYTES).read_to_end(&mut answer);
        let retry_after = retry_after(&parts.headers);
        Ok(Answer { status: parts.status, retry_after, body: answer })
    }
}
