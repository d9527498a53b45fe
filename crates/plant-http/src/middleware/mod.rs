//! What happens to every request: it gets an id, the gate checks it, a panic becomes an answer, every answer gets the
//! common headers, and the log gets a line.

pub(crate) mod audit;
pub(crate) mod context;
mod exchange;
mod log_fields;
pub(crate) mod policy;
mod request_log;
mod trace_context;

use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use actix_http::body::BoxBody;
use actix_http::{Request, Response};
use actix_web::dev::{ServiceRequest, ServiceResponse, Url};
use actix_web::error::InternalError;
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse};
use futures_util::FutureExt as _;

use crate::errors::{ErrorNumber, Failure};
use crate::server::http1::ClientConnection;

use self::context::RequestContext;
use self::exchange::Exchange;
use self::policy::Policy;

/// Sends `100 Continue` for a request with `Expect: 100-continue`, or the gate's refusal instead.
pub(crate) fn before_continue(
    policy: &Rc<Policy>,
    request: Request,
) -> Result<Request, Response<BoxBody>> {
    let context = RequestContext::of(&request);
    // Decoded as actix-web decodes the path to find the route.
    let url = Url::new(request.uri().clone());
    let route = policy.routes.find(url.path());
    let connection = ClientConnection::before_routing(&request);
    match policy.check(&context, &connection, request.head(), route) {
        // The exchange begins when actix-http passes the request on to be answered.
        Ok(()) => Ok(request),
        Err(failure) => {
            let exchange = Exchange::begin(policy, route, context, request.head(), connection);
            Err(exchange.begin_answer(HttpResponse::from_error(failure)).into())
        }
    }
}

/// The outermost middleware of the service.
pub(crate) async fn answer(
    policy: Rc<Policy>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let context = RequestContext::begin(&request);
    let route = policy.routes.find(note_mount(&request, &context));
    let connection = ClientConnection::of(request.request());
    let checked = policy.check(&context, &connection, request.head(), route);
    let exchange = Exchange::begin(&policy, route, Rc::clone(&context), request.head(), connection);
    if let Err(failure) = checked {
        return Ok(request.into_response(exchange.begin_answer(HttpResponse::from_error(failure))));
    }
    let cause = match AssertUnwindSafe(next.call(request)).catch_unwind().await {
        Ok(Ok(answer)) => {
            let (request, response) = answer.into_parts();
            return Ok(ServiceResponse::new(request, exchange.begin_answer(response)));
        }
        Ok(Err(error)) => error.to_string(),
        // The panic hook has logged the location.
        Err(_) => "a handler panicked".to_owned(),
    };
    context.log_error(&cause);
    // A panic takes the request with it, and a ServiceResponse needs one, so an error carries the answer.
    let response =
        exchange.begin_answer(HttpResponse::from_error(Failure::from(ErrorNumber::Internal)));
    Err(InternalError::from_response(cause, response).into())
}

/// Notes the path that the service is mounted on, as the client wrote it, and returns the rest of the path, by which
/// routes are matched.
fn note_mount<'a>(request: &'a ServiceRequest, context: &RequestContext) -> &'a str {
    let matched = request.match_info();
    let (whole, below) = (matched.as_str(), matched.unprocessed());
    let mount = &whole[..whole.len() - below.len()];
    if !mount.is_empty() {
        // Routing decodes the path but no percent-encoded slash, so counting slashes finds the end of the mount.
        let slashes = mount.matches('/').count();
        let path = request.path();
        let end = path.match_indices('/').nth(slashes).map_or(path.len(), |(at, _)| at);
        context.set_mount(&path[..end]);
    }
    below
}
