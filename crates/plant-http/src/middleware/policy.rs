//! The rules for every request.

use std::sync::Arc;

use actix_http::RequestHead;

use crate::access::cors::CorsOrigin;
use crate::access::gate::Gate;
use crate::errors::{ErrorNumber, Failure};
use crate::middleware::context::RequestContext;
use crate::server::drain::Draining;
use crate::server::http1::framing;

#[derive(Default)]
pub(crate) struct Policy {
    pub(crate) gate: Gate,
    pub(crate) cors_origins: Vec<CorsOrigin>,
    pub(crate) draining: Arc<Draining>,
}

impl Policy {
    /// Whether the request may be answered. `path` begins behind the mount of the service.
    pub(super) fn check(
        &self,
        context: &RequestContext,
        head: &RequestHead,
        path: &str,
    ) -> Result<(), Failure> {
        if let Some(refusal) = framing::refusal(head) {
            return Err(Failure::new(ErrorNumber::WrongHeader, refusal));
        }
        context.authorize(&self.gate, head, path)
    }
}
