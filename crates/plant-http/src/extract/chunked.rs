//! Requests for answers in chunks.

use actix_http::Version;
use actix_web::HttpRequest;

use crate::errors::{ErrorNumber, Failure};
use crate::extract::head::FromHead;

/// A request for an answer in chunks, so not over HTTP/1.0. That version has no chunks: the body ends with the connection
/// (RFC 9112, section 6.3), so that a body that is cut off would look complete.
pub(crate) struct Chunked;

impl FromHead for Chunked {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        if request.version() < Version::HTTP_11 {
            return Err(ErrorNumber::OldVersion.into());
        }
        Ok(Self)
    }
}
