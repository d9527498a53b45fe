//! What the context of a request tells handlers: whose token it came with, and where the service is mounted.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::rc::Rc;

use actix_http::Payload;
use actix_web::{FromRequest, HttpRequest};
use plant_domain::PlantId;

use crate::access::gate::Identity;
use crate::errors::Failure;
use crate::middleware::context::RequestContext;

/// A client whose token the gate has accepted, with a scope that allows the method.
pub(crate) struct Caller(Rc<RequestContext>);

impl Caller {
    pub(super) fn of(request: &HttpRequest) -> Self {
        Self(RequestContext::of(request))
    }

    /// Fails if the token has expired or was revoked since the request began.
    pub(crate) fn check_still_valid(&self) -> Result<(), Failure> {
        self.0.identity().map_or(Ok(()), Identity::check_still_valid)
    }

    /// Adds the plant to the request's log line.
    pub(crate) fn record_plant(&self, plant: PlantId) {
        self.0.record_plant(plant);
    }

    /// What else is known of the request. It displays as the log names the request.
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

/// Makes the paths in answers, which begin with the path that the service is mounted on.
pub(crate) struct Mount(Rc<RequestContext>);

impl Mount {
    pub(crate) fn plants(&self) -> String {
        format!("{}/plants", self.0.mount())
    }

    pub(crate) fn plant(&self, id: PlantId) -> String {
        format!("{}/plants/{id}", self.0.mount())
    }

    pub(crate) fn list(&self, query: &str) -> String {
        format!("{}/plants?{query}", self.0.mount())
    }
}

impl FromRequest for Mount {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(request: &HttpRequest, _payload: &mut Payload) -> Self::Future {
        ready(Ok(Self(RequestContext::of(request))))
    }
}
