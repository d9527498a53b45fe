//! The token of the request itself.

use std::rc::Rc;

use actix_web::HttpResponse;
use actix_web::web::ReqData;
use jiff::Timestamp;
use serde::Serialize;

use crate::access::token_record::{Scope, TokenName};
use crate::errors::{ErrorNumber, Failure};
use crate::extract::head::Head;
use crate::extract::query::NoQuery;
use crate::middleware::context::RequestContext;

/// What the holder of a token may know about it.
#[derive(Serialize)]
struct TokenDescription<'a> {
    name: &'a TokenName,
    scope: Scope,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
}

/// `GET /token`.
pub(crate) async fn describe(
    context: ReqData<Rc<RequestContext>>,
    _: Head<NoQuery>,
) -> Result<HttpResponse, Failure> {
    // Cannot fail: the gate refuses requests without a token.
    let record = context.token().ok_or(ErrorNumber::NoToken)?;
    let (name, scope, expires) = (&record.name, record.scope, record.expires);
    Ok(HttpResponse::Ok().json(TokenDescription { name, scope, expires }))
}
