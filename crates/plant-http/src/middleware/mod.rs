//! What happens to every request, whatever its path: it gets an id, it passes the gate or not, a panic becomes an
//! answer, every answer gets the headers that all have, and the log gets a line.
//!
//! [`Middleware`] does that around an actix-web application or a part of one. [`Policy`] is what it asks, and what the
//! server asks before it tells a client to send its body.

pub(crate) mod audit;
pub(crate) mod context;
mod exchange;

use std::future::{Ready, ready};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;

use actix_http::body::BoxBody;
use actix_http::{Request, RequestHead, Response};
use actix_service::{Service, Transform};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::{Error, ResponseError as _};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use crate::access::cors::Cors;
use crate::access::gate::Gate;
use crate::errors::{ErrorNumber, Failure};
use crate::server::drain::Draining;
use crate::server::http1::framing;
use crate::server::http1::state::ConnectionState;

use self::context::RequestContext;
use self::exchange::Exchange;

/// What every request has to pass.
pub(crate) struct Policy {
    pub(crate) gate: Gate,
    pub(crate) cors: Cors,
    pub(crate) draining: Arc<Draining>,
}

impl Policy {
    /// Lets a client send the body that it announces by `Expect: 100-continue`, or answers at the gate instead.
    pub(crate) fn before_continue(&self, request: Request) -> Result<Request, Response<BoxBody>> {
        let context = RequestContext::of(&request);
        match self.check(&context, request.head(), request.path()) {
            // The exchange begins when the request comes again, to be answered.
            Ok(()) => Ok(request),
            Err(failure) => {
                let connection = request.conn_data::<Rc<ConnectionState>>();
                let exchange = self.begin(context, request.head(), connection);
                Err(exchange.end(failure.error_response()).into())
            }
        }
    }

    fn begin(
        &self,
        context: Rc<RequestContext>,
        head: &RequestHead,
        connection: Option<&Rc<ConnectionState>>,
    ) -> Exchange {
        let cors = self.cors.question(head);
        Exchange::begin(context, head, connection, cors, Arc::clone(&self.draining))
    }

    /// Whether the request may be answered. `path` begins where the service is mounted.
    fn check(
        &self,
        context: &RequestContext,
        head: &RequestHead,
        path: &str,
    ) -> Result<(), Failure> {
        if let Some(refusal) = framing::refusal(head) {
            return Err(Failure::new(ErrorNumber::WrongHeader, refusal));
        }
        context.authorize(&self.gate, head, path)
    }
}

/// The outermost layer of the service.
#[derive(Clone)]
pub(crate) struct Middleware(Arc<Policy>);

impl Middleware {
    pub(crate) fn new(policy: Arc<Policy>) -> Self {
        Self(policy)
    }
}

impl<S> Transform<S, ServiceRequest> for Middleware
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = ServiceResponse<BoxBody>;
    type Error = Error;
    type Transform = Layer<S>;
    type InitError = ();
    type Future = Ready<Result<Layer<S>, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(Layer { policy: Arc::clone(&self.0), inner }))
    }
}

/// [`Middleware`] around a service.
pub(crate) struct Layer<S> {
    policy: Arc<Policy>,
    inner: S,
}

impl<S> Service<ServiceRequest> for Layer<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = ServiceResponse<BoxBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<ServiceResponse<BoxBody>, Error>>;

    actix_service::forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let context = RequestContext::begin(&request);
        let path = note_mount(&request, &context);
        let connection = request.request().conn_data::<Rc<ConnectionState>>();
        let exchange = self.policy.begin(Rc::clone(&context), request.head(), connection);
        if let Err(failure) = self.policy.check(&context, request.head(), path) {
            let response = exchange.end(failure.error_response());
            return ready(Ok(request.into_response(response))).boxed_local();
        }
        let answering = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        Box::pin(async move {
            let cause = match answering.await {
                Ok(Ok(answer)) => {
                    let (request, response) = answer.into_parts();
                    return Ok(ServiceResponse::new(request, exchange.end(response)));
                }
                Ok(Err(error)) => error.to_string(),
                // The panic hook has logged where.
                Err(_) => "a handler panicked".to_owned(),
            };
            exchange.log_error(&cause);
            // The request is gone, and with it the way to an answer in its name.
            let response = exchange.end(Failure::from(ErrorNumber::Internal).error_response());
            Err(InternalError::from_response(cause, response).into())
        })
    }
}

/// Notes on which path the service is mounted, as the client wrote it, and returns what follows, as routes are matched
/// with it.
fn note_mount<'a>(request: &'a ServiceRequest, context: &RequestContext) -> &'a str {
    let matched = request.match_info();
    let (whole, below) = (matched.as_str(), matched.unprocessed());
    let mount = &whole[..whole.len() - below.len()];
    if !mount.is_empty() {
        // A slash that is percent-encoded stays so, and the mount has as many slashes in the path as it was sent.
        let slashes = mount.matches('/').count();
        let path = request.path();
        let end = path.match_indices('/').nth(slashes).map_or(path.len(), |(at, _)| at);
        context.set_mount(&path[..end]);
    }
    below
}
