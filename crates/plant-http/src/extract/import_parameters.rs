//! What an import is told in its head.

use std::future::{Ready, ready};

use actix_http::Payload;
use actix_web::{FromRequest, HttpRequest};
use plant_store::OnConflict;

use crate::errors::Failure;
use crate::extract::query::on_conflict;
use crate::extract::transfer_format::ImportFormat;

/// What to do with an id that is taken, and what the body is written in.
pub(crate) struct ImportParameters {
    pub(crate) on_conflict: OnConflict,
    pub(crate) format: ImportFormat,
}

impl ImportParameters {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        let on_conflict = on_conflict(request.query_string())?;
        Ok(Self { on_conflict, format: ImportFormat::of_body(request.headers())? })
    }
}

impl FromRequest for ImportParameters {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, _payload: &mut Payload) -> Self::Future {
        ready(Self::read(request))
    }
}
