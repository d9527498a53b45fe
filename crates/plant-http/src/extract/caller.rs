//! The one who asks, by the token.

use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;

use actix_http::Payload;
use actix_web::{FromRequest, HttpRequest};
use plant_domain::PlantId;

use crate::access::gate::Identity;
use crate::errors::Failure;
use crate::middleware::context::RequestContext;

/// The client that the gate has let in, with a token whose scope allows the method.
pub(crate) struct Caller(Rc<RequestContext>);

impl Caller {
    pub(super) fn of(request: &HttpRequest) -> Self {
        Self(RequestContext::of(request))
    }

    /// For a request that takes long: whether its token still is in force.
    pub(crate) fn check_still_valid(&self) -> Result<(), Failure> {
        self.0.identity().map_or(Ok(()), Identity::check_still_valid)
    }

    /// The log tells that the request is about this plant.
    pub(crate) fn record_plant(&self, plant: PlantId) {
        self.0.record_plant(plant);
    }

    /// What else is known of the request.
    pub(crate) fn context(&self) -> &Rc<RequestContext> {
        &self.0
    }
}

impl FromRequest for Caller {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(request: &HttpRequest, _payload: &mut Payload) -> Self::Future {
        ready(Ok(Self::of(request)))
    }
}

/// As the log names the request and its token.
impl fmt::Display for Caller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
