//! The rules for every request.

use std::sync::Arc;

use actix_http::RequestHead;

use crate::access::cors::CorsOrigin;
use crate::access::gate::Gate;
use crate::errors::{ErrorNumber, Failure};
use crate::metrics::RequestMetrics;
use crate::middleware::context::RequestContext;
use crate::route_table::{RouteEntry, RouteTable};
use crate::server::drain::Draining;
use crate::server::http1::{self, ClientConnection};

pub(crate) struct Policy {
    pub(crate) routes: RouteTable,
    pub(crate) metrics: RequestMetrics,
    pub(crate) gate: Gate,
    pub(crate) cors_origins: Vec<CorsOrigin>,
    pub(crate) draining: Arc<Draining>,
}

impl Policy {
    /// Whether a request of this route may be answered.
    pub(super) fn check(
        &self,
        context: &RequestContext,
        connection: &ClientConnection,
        head: &RequestHead,
        route: &RouteEntry,
    ) -> Result<(), Failure> {
        if let Some(refusal) = http1::refusal(head) {
            return Err(Failure::new(ErrorNumber::WrongHeader, refusal));
        }
        let identify = || self.gate.identify(&head.headers, connection.last_token());
        context.authorize(route.access(&head.method), identify)
    }
}
