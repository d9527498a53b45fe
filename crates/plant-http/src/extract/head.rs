//! The extractor of everything that is read from the head of a request.

use std::future::{Ready, ready};

use actix_http::Payload;
use actix_web::{FromRequest, HttpRequest};

use crate::errors::Failure;
use crate::server::http1::ClientConnection;

/// What a handler takes from the path, the query and the headers of a request.
pub(crate) struct Head<T>(pub(crate) T);

/// What [`Head`] reads.
pub(crate) trait FromHead: Sized {
    fn read(request: &HttpRequest) -> Result<Self, Failure>;
}

impl<T: FromHead> FromRequest for Head<T> {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, _payload: &mut Payload) -> Self::Future {
        ready(T::read(request).map(Self))
    }
}

impl FromHead for ClientConnection {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        Ok(Self::of(request))
    }
}
