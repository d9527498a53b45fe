//! The path that the service is mounted on.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::rc::Rc;

use actix_http::Payload;
use actix_web::{FromRequest, HttpRequest};
use plant_domain::PlantId;

use crate::middleware::context::RequestContext;

/// Makes the paths that answers name.
pub(crate) struct Mount(Rc<RequestContext>);

impl Mount {
    /// Where the plants are.
    pub(crate) fn plants(&self) -> String {
        format!("{}/plants", self.0.mount())
    }

    /// Where a plant is.
    pub(crate) fn plant(&self, id: PlantId) -> String {
        format!("{}/plants/{id}", self.0.mount())
    }

    /// Where a page of the list is.
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
