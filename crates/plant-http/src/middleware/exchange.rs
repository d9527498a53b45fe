//! One request from its head to the end of its answer: the connection's state, the common headers, and the log line.

use std::error::Error;
use std::fmt::{self, Display};
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix_http::body::{BodySize, BoxBody, MessageBody};
use actix_http::header::{self, HeaderName, HeaderValue};
use actix_http::{ConnectionType, Method, RequestHead, StatusCode, Uri, Version};
use actix_web::HttpResponse;
use actix_web::web::Bytes;
use log::Level;

use crate::access::cors;
use crate::errors::{ErrorNumber, Failure};
use crate::middleware::audit::{
    ACCESS_LOG, AUDIT_LOG, LOGGED_METHOD_MAX_BYTES, LOGGED_PATH_MAX_BYTES, cut,
};
use crate::middleware::context::{REQUEST_ID, RequestContext};
use crate::middleware::policy::Policy;
use crate::server::http1::framing::BodyLength;
use crate::server::http1::state::ConnectionState;

/// The headers of every answer, unless the handler has set them. Browsers take the content type as it is (the Fetch
/// standard, section "X-Content-Type-Options"), and an answer that is opened as a page may load or run nothing. Shared
/// caches may not keep the answer, and the client's own cache must revalidate it (RFC 9111, section 5.2.2).
const COMMON_HEADERS: [(HeaderName, HeaderValue); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
];

/// An exchange ends when this is dropped: with the answer, with its streamed body, or when the client disconnects.
pub(crate) struct Exchange {
    begun: Instant,
    policy: Rc<Policy>,
    context: Rc<RequestContext>,
    /// Whether the method is not safe (RFC 9110, section 9.2.1).
    may_change: bool,
    cors_headers: Vec<(HeaderName, HeaderValue)>,
    /// What the log line begins with, unless the log discards it.
    logged: Option<LoggedHead>,
    connection: Option<Rc<ConnectionState>>,
    /// The status of the answer, once it has begun.
    status: Option<StatusCode>,
    error: Option<ErrorNumber>,
}

impl Exchange {
    /// The head of a request has arrived.
    pub(crate) fn begin(
        policy: &Rc<Policy>,
        context: Rc<RequestContext>,
        head: &RequestHead,
        connection: Option<&Rc<ConnectionState>>,
    ) -> Self {
        if let Some(connection) = connection {
            let is_last = head.connection_type() != ConnectionType::KeepAlive;
            connection.request_begins(BodyLength::of(head), is_last);
        }
        Self {
            begun: Instant::now(),
            policy: Rc::clone(policy),
            context,
            may_change: !head.method.is_safe(),
            cors_headers: cors::answer_headers(&policy.cors_origins, head),
            logged: LoggedHead::of(head),
            connection: connection.map(Rc::clone),
            status: None,
            error: None,
        }
    }

    /// Logs an error that the client must not see.
    pub(crate) fn log_error(&self, cause: &str) {
        log::error!("{cause}: {}", self.context);
    }

    /// Completes the head of the answer, and notes on the connection that the answer begins.
    pub(crate) fn begin_answer(mut self, mut response: HttpResponse) -> HttpResponse {
        if let Some(failure) = response.error().and_then(|error| error.as_error::<Failure>()) {
            self.error = Some(failure.number());
            if let Some(cause) = failure.cause() {
                self.log_error(&cause.to_string());
            }
        }
        self.status = Some(response.status());
        if let Some(connection) = &self.connection {
            let head = response.head_mut();
            // actix-http reuses heads and keeps their version, which determines the connection type.
            head.version = Version::HTTP_11;
            let is_last = head.connection_type() == ConnectionType::Close;
            // In the drain, the client should send its next request on another connection.
            if connection.answer_begins(is_last, self.policy.draining.has_begun()) {
                response.head_mut().set_connection_type(ConnectionType::Close);
            }
        }
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, self.context.id.clone());
        for (name, value) in COMMON_HEADERS {
            if !headers.contains_key(&name) {
                headers.insert(name, value);
            }
        }
        for (name, value) in mem::take(&mut self.cors_headers) {
            if name == header::VARY {
                // The answer may vary by other headers as well.
                headers.append(name, value);
            } else {
                headers.insert(name, value);
            }
        }
        if response.body().size() == BodySize::Stream {
            return response.map_body(|_, body| BoxBody::new(Streamed { body, exchange: self }));
        }
        response
    }

    fn log(&self, head: &LoggedHead) {
        // Without a status, the client disconnected before its answer began. A change may have been made.
        let status = self.status.as_ref().map_or("-", StatusCode::as_str);
        let micros = self.begun.elapsed().as_micros();
        // Most requests have neither, and their line then allocates nothing.
        let counts = self.context.import.get();
        let counts = counts.map_or_else(String::new, |counts| format!(" {counts}"));
        let error = self.error.map_or_else(String::new, |error| format!(" error={}", error as i32));
        let is_change = self.may_change && self.context.is_let_in.get();
        let target = if is_change { AUDIT_LOG } else { ACCESS_LOG };
        log::info!(target: target, "{head} {status} {micros}us {}{counts}{error}", self.context);
    }
}

/// The parts of a request's head that are logged. Cloning them copies no text.
struct LoggedHead {
    /// A client on a Unix socket has no address.
    peer: Option<SocketAddr>,
    method: Method,
    uri: Uri,
}

impl LoggedHead {
    /// `None` if the log discards the line.
    fn of(head: &RequestHead) -> Option<Self> {
        let is_logged = [ACCESS_LOG, AUDIT_LOG]
            .into_iter()
            .any(|target| log::log_enabled!(target: target, Level::Info));
        is_logged.then(|| Self {
            peer: head.peer_addr,
            method: head.method.clone(),
            uri: head.uri.clone(),
        })
    }
}

impl Display for LoggedHead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.peer {
            Some(peer) => write!(formatter, "{peer}")?,
            None => formatter.write_str("unix")?,
        }
        let method = cut(self.method.as_str(), LOGGED_METHOD_MAX_BYTES);
        let path = cut(self.uri.path(), LOGGED_PATH_MAX_BYTES);
        write!(formatter, " {method} {path}")
    }
}

/// An answer of known length ends here before it is written. actix-http writes it before it reads again, so that
/// nothing of the next request is read too early.
impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(head) = &self.logged {
            self.log(head);
        }
        if let Some(connection) = &self.connection {
            connection.answer_ends();
        }
    }
}

/// A streamed body. The exchange ends when the body ends; until then the connection is busy.
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

    use actix_http::Request;
    use actix_http::body::BodyStream;
    use futures_util::stream;

    use super::*;

    #[test]
    fn a_connection_has_no_deadline_while_its_answer_is_streamed() {
        let connection = Rc::new(ConnectionState::default());
        let request = Request::new();
        let context = RequestContext::of(&request);
        let connected = Some(&connection);
        let exchange = Exchange::begin(&Rc::default(), context, request.head(), connected);
        let body = BodyStream::new(stream::pending::<Result<Bytes, Infallible>>());
        let answer = exchange.begin_answer(HttpResponse::Ok().body(body));
        assert!(connection.deadline().is_none(), "the client would be cut off");
        drop(answer);
        assert!(connection.deadline().is_some(), "the next request has to come in time");
    }
}
