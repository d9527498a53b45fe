//! What is done with each request from its head to the end of its answer.

use std::error::Error;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix_http::body::{BodySize, BoxBody, MessageBody};
use actix_http::header::{self, HeaderMap, HeaderValue};
use actix_http::{ConnectionType, RequestHead, StatusCode, Version};
use actix_web::HttpResponse;
use actix_web::web::Bytes;
use log::Level;

use crate::access::cors::CorsQuestion;
use crate::errors::{ErrorNumber, LoggedFailure};
use crate::middleware::audit::{
    ACCESS_LOG, AUDIT_LOG, LOGGED_METHOD_MAX_BYTES, LOGGED_PATH_MAX_BYTES, cut,
};
use crate::middleware::context::{REQUEST_ID, RequestContext};
use crate::server::drain::Draining;
use crate::server::http1::framing::BodyLength;
use crate::server::http1::state::ConnectionState;

/// Every answer says these. What it is is what its content type says (the Fetch standard, section
/// "X-Content-Type-Options"), and as a page it may do nothing.
const CONTENT_TYPE_OPTIONS: HeaderValue = HeaderValue::from_static("nosniff");
const CONTENT_SECURITY_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// An answer is for the one who asked: no cache that others use may keep it, and the client's own has to
/// ask each time whether it is still so (RFC 9111, section 5.2.2).
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");

/// One request from its head to its answer.
pub(crate) struct Exchange {
    begun: Instant,
    context: Rc<RequestContext>,
    /// Whether the request is one of those that may change something (RFC 9110, section 9.2.1).
    may_change: bool,
    cors: Option<CorsQuestion>,
    /// The beginning of the line in the log, where there is to be one.
    line: Option<String>,
    connection: Option<Rc<ConnectionState>>,
    draining: Arc<Draining>,
    /// The status of the answer, when it has begun.
    status: Option<StatusCode>,
    error: Option<ErrorNumber>,
}

impl Exchange {
    /// A request whose head has come.
    pub(crate) fn begin(
        context: Rc<RequestContext>,
        head: &RequestHead,
        connection: Option<&Rc<ConnectionState>>,
        cors: Option<CorsQuestion>,
        draining: Arc<Draining>,
    ) -> Self {
        if let Some(connection) = connection {
            let is_last = head.connection_type() != ConnectionType::KeepAlive;
            connection.request_begins(BodyLength::of(head), is_last);
        }
        Self {
            begun: Instant::now(),
            context,
            may_change: !head.method.is_safe(),
            cors,
            line: line(head),
            connection: connection.map(Rc::clone),
            draining,
            status: None,
            error: None,
        }
    }

    /// Logs what no client may see.
    pub(crate) fn log_error(&self, cause: &str) {
        log::error!("{cause}: {}", self.context);
    }

    /// The answer as the client gets it.
    pub(crate) fn end(mut self, mut response: HttpResponse) -> HttpResponse {
        if let Some(LoggedFailure { number, cause }) = response.extensions().get() {
            self.error = Some(*number);
            if let Some(cause) = cause {
                self.log_error(&cause.to_string());
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

/// The beginning of the line in the log, where there is to be one.
fn line(head: &RequestHead) -> Option<String> {
    let is_logged = [ACCESS_LOG, AUDIT_LOG]
        .into_iter()
        .any(|target| log::log_enabled!(target: target, Level::Info));
    is_logged.then(|| {
        let method = cut(head.method.as_str(), LOGGED_METHOD_MAX_BYTES);
        let path = cut(head.uri.path(), LOGGED_PATH_MAX_BYTES);
        match head.peer_addr {
            Some(peer) => format!("{peer} {method} {path}"),
            // A client on a Unix socket has no address.
            None => format!("unix {method} {path}"),
        }
    })
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

    use actix_http::Request;
    use actix_http::body::BodyStream;
    use futures_util::stream;

    use super::*;

    #[test]
    fn a_connection_waits_for_nothing_while_its_answer_still_comes() {
        let connection = Rc::new(ConnectionState::new());
        connection.request_begins(BodyLength::Bytes(0), false);
        let exchange = Exchange {
            begun: Instant::now(),
            context: RequestContext::of(&Request::new()),
            may_change: false,
            cors: None,
            line: None,
            connection: Some(Rc::clone(&connection)),
            draining: Arc::default(),
            status: None,
            error: None,
        };
        let body = BodyStream::new(stream::pending::<Result<Bytes, Infallible>>());
        let answer = exchange.end(HttpResponse::Ok().body(body));
        assert!(connection.deadline().is_none(), "the client would be cut off");
        drop(answer);
        assert!(connection.deadline().is_some(), "the next request has to come in time");
    }
}
