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

/// Answers a request.
pub(crate) async fn answer(
    policy: Rc<Policy>,
    request: ServiceRequest,
) -> Result<ServiceResponse, Error> {
    let context = RequestContext::of(&request);
    let route = policy.routes.find(note_mount(&request, &context));
    let connection = ClientConnection::of(request.request());
    let checked = policy.check(&context, &connection, request.head(), route);
    let exchange = Exchange::begin(&policy, route, Rc::clone(&context), request.head(), connection);
    if let Err(failure) = checked {
        return Ok(request.into_response(exchange.begin_answer(HttpResponse::from_error(failure))));
    }
    let (request, payload) = request.into_parts();
    let answer = AssertUnwindSafe(route.answer(request.clone(), payload)).catch_unwind().await;
    let response = answer.unwrap_or_else(|_| {
        // The panic hook has logged the location.
        context.log_error("a handler panicked");
        HttpResponse::from_error(Failure::from(ErrorNumber::Internal))
    });
    Ok(ServiceResponse::new(request, exchange.begin_answer(response)))
}

/// Notes the path that the service is mounted on, as the client wrote it, and returns the rest of the path, by which
/// routes are matched.
fn note_mount<'a>(request: &'a ServiceRequest, context: &RequestContext) -> &'a str {
    let matched = request.match_info();
    let (whole, below) = (matched.as_str(), matched.unprocessed());
    if whole.is_empty() {
        // A target without a path, such as that of CONNECT, is not a mount without a slash.
        return "*";
    }
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
