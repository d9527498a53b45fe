//! What happens to every request, whatever its path: it gets an id, it passes the gate or not, a
//! panic becomes an answer, and its end is logged.

use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix_http::body::{BodySize, BoxBody, MessageBody};
use actix_http::header::{self, HeaderMap, HeaderValue};
use actix_http::{ConnectionType, Request, Response, StatusCode, Version};
use actix_web::web::Bytes;
use futures_util::FutureExt as _;
use log::Level;

use crate::access::cors::{Cors, CorsQuestion};
use crate::access::gate::Gate;
use crate::audit::{ACCESS_LOG, AUDIT_LOG, LOGGED_METHOD_MAX_BYTES, LOGGED_PATH_MAX_BYTES, cut};
use crate::errors::{ErrorNumber, Failed, Failure};
use crate::request_context::{REQUEST_ID, RequestContext};
use crate::server::drain::Draining;
use crate::server::http1::connection::ConnectionState;
use crate::server::http1::framing::{self, BodyLength};

/// Every answer says these. What it is is what its content type says (the Fetch standard, section
/// "X-Content-Type-Options"), and as a page it may do nothing.
const CONTENT_TYPE_OPTIONS: HeaderValue = HeaderValue::from_static("nosniff");
const CONTENT_SECURITY_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// An answer is for the one who asked: no cache that others use may keep it, and the client's own has to
/// ask each time whether it is still so (RFC 9111, section 5.2.2).
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");

/// What each request has to pass, whatever it is for.
pub(crate) struct ExchangePolicy {
    pub(crate) gate: Gate,
    pub(crate) cors: Cors,
    pub(crate) draining: Arc<Draining>,
}

impl ExchangePolicy {
    /// Lets a client send the body that it announces by `Expect: 100-continue`, or answers at the gate
    /// instead.
    pub(crate) fn before_continue(&self, request: Request) -> Result<Request, Response<BoxBody>> {
        match self.check(&request) {
            // The exchange begins when the request comes again, to be answered.
            Ok(()) => Ok(request),
            Err(failure) => Err(self.begin(&request).end(failure.into())),
        }
    }

    /// A request whose head has come.
    pub(crate) fn begin(&self, request: &Request) -> Exchange {
        let is_logged = [ACCESS_LOG, AUDIT_LOG]
            .into_iter()
            .any(|target| log::log_enabled!(target: target, Level::Info));
        let line = is_logged.then(|| {
            let method = cut(request.method().as_str(), LOGGED_METHOD_MAX_BYTES);
            let path = cut(request.path(), LOGGED_PATH_MAX_BYTES);
            // A client on a Unix socket has no address.
            match request.peer_addr() {
                Some(peer) => format!("{peer} {method} {path}"),
                None => format!("unix {method} {path}"),
            }
        });
        let connection = request.conn_data::<Rc<ConnectionState>>().map(Rc::clone);
        if let Some(connection) = &connection {
            let is_last = request.head().connection_type() != ConnectionType::KeepAlive;
            connection.request_begins(BodyLength::of(request.head()), is_last);
        }
        Exchange {
            begun: Instant::now(),
            context: RequestContext::of_request(request),
            may_change: !request.method().is_safe(),
            cors: self.cors.question(request),
            line,
            connection,
            draining: Arc::clone(&self.draining),
            status: None,
            error: None,
        }
    }

    /// Whether the application may answer.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Failure> {
        framing::check(request.head())?;
        RequestContext::of_request(request).authorize(&self.gate, request)
    }
}

/// One request from its head to its answer.
pub(crate) struct Exchange {
    begun: Instant,
    context: Rc<RequestContext>,
    /// Whether the request is one of those that may change something (RFC 9110, section 9.2.1).
    may_change: bool,
    cors: Option<CorsQuestion>,
    /// The beginning of the line in the log, where it is wanted.
    line: Option<String>,
    connection: Option<Rc<ConnectionState>>,
    draining: Arc<Draining>,
    /// The status of the answer, when it has begun.
    status: Option<StatusCode>,
    error: Option<ErrorNumber>,
}

impl Exchange {
    /// The answer of the application, whose panic is a 500, or of the gate.
    pub(crate) async fn answer<Answering, Answer>(
        self,
        answering: Result<Answering, Failure>,
    ) -> Response<BoxBody>
    where
        Answering: Future<Output = Result<Answer, actix_web::Error>>,
        Answer: Into<Response<BoxBody>>,
    {
        let response = match answering {
            Ok(answering) => match AssertUnwindSafe(answering).catch_unwind().await {
                Ok(Ok(answer)) => answer.into(),
                Ok(Err(error)) => self.internal(&error),
                // The panic hook has logged where.
                Err(_) => self.internal(&"a handler panicked"),
            },
            Err(failure) => failure.into(),
        };
        self.end(response)
    }

    fn internal(&self, cause: &dyn fmt::Display) -> Response<BoxBody> {
        log::error!("{cause}: {}", self.context);
        Failure::internal().into()
    }

    fn end(mut self, mut response: Response<BoxBody>) -> Response<BoxBody> {
        if let Some(Failed { number, cause }) = response.extensions().get() {
            self.error = Some(*number);
            if let Some(cause) = cause {
                log::error!("{cause}: {}", self.context);
            }
        }
        self.status = Some(response.status());
        if let Some(connection) = &self.connection {
            let head = response.head_mut();
            // A head is used again with the version of another answer, which would decide here.
            head.version = Version::HTTP_11;
            let is_last = head.connection_type() == ConnectionType::Close;
            // In the drain, the client is to send its next request elsewhere.
            connection.answer_begins(is_last, self.draining.has_begun());
            if connection.is_closing() {
                response.head_mut().set_connection_type(ConnectionType::Close);
            }
        }
        self.say_headers(response.headers_mut());
        if response.body().size() == BodySize::Stream {
            // The connection still is busy with the answer, and may be for long.
            return response.map_body(|_, body| BoxBody::new(Streamed { body, exchange: self }));
        }
        response
    }

    /// What every answer says, where the handler has not said something else.
    fn say_headers(&self, headers: &mut HeaderMap) {
        headers.insert(REQUEST_ID, self.context.id().clone());
        for (name, value) in [
            (header::X_CONTENT_TYPE_OPTIONS, CONTENT_TYPE_OPTIONS),
            (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
            (header::CACHE_CONTROL, CACHE_CONTROL),
        ] {
            if !headers.contains_key(&name) {
                headers.insert(name, value);
            }
        }
        if let Some(question) = &self.cors {
            question.answer(headers);
        }
    }

    /// The line in the log.
    fn log(&self, line: &str) {
        // Without a status, the client went away before its answer began, and a change may have been made.
        let status = self.status.as_ref().map_or("-", StatusCode::as_str);
        let micros = self.begun.elapsed().as_micros();
        let counts = self.context.import_counts();
        let counts = counts.map_or_else(String::new, |counts| format!(" {counts}"));
        let error = self.error.map_or_else(String::new, |error| format!(" error={}", error as i32));
        let is_change = self.may_change && self.context.is_let_in();
        let target = if is_change { AUDIT_LOG } else { ACCESS_LOG };
        log::info!(target: target, "{line} {status} {micros}us {}{counts}{error}", self.context);
    }
}

/// However an answer ends, whole or cut. An answer of known length ends here before it is written; it is
/// written in the same turn of the connection, so that nothing of the next request is read before.
impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            self.log(line);
        }
        if let Some(connection) = &self.connection {
            connection.answer_ends();
        }
    }
}

/// A body that comes part by part, and with which the exchange ends.
struct Streamed {
    body: BoxBody,
    exchange: Exchange,
}

impl MessageBody for Streamed {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let part = Pin::new(&mut self.body).poll_next(context);
        if let Poll::Ready(Some(Err(cause))) = &part {
            log::error!("the answer broke off: {cause}: {}", self.exchange.context);
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use actix_http::body::BodyStream;
    use futures_util::stream;

    use super::*;

    #[test]
    fn a_connection_waits_for_nothing_while_its_answer_still_comes() {
        let connection = Rc::new(ConnectionState::new());
        connection.request_begins(BodyLength::Bytes(0), false);
        let exchange = Exchange {
            begun: Instant::now(),
            context: RequestContext::of_request(&Request::new()),
            may_change: false,
            cors: None,
            line: None,
            connection: Some(Rc::clone(&connection)),
            draining: Arc::default(),
            status: None,
            error: None,
        };
        let body = BodyStream::new(stream::pending::<Result<Bytes, Infallible>>());
        let answer = exchange.end(Response::ok().set_body(BoxBody::new(body)));
        assert!(connection.deadline().is_none(), "the client would be cut off");
        drop(answer);
        assert!(connection.deadline().is_some(), "the next request has to come in time");
    }
}
