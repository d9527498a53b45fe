//! What happens to every request, whatever its path: it gets an id, it passes the gate or not, a
//! panic becomes an answer, and its end is logged.

use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix_http::body::{BodySize, BoxBody, MessageBody};
use actix_http::header::{self, HeaderName, HeaderValue};
use actix_http::{ConnectionType, HttpMessage as _, Request, Response, StatusCode};
use actix_web::web::Bytes;
use futures_util::FutureExt as _;
use uuid::Uuid;

use crate::connection::ConnectionState;
use crate::failure::{Cause, ErrorNumber, Failure};
use crate::gate::Gate;
use crate::transport::Peer;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that is taken from a client, in characters.
const REQUEST_ID_MAX_CHARACTERS: usize = 128;

const ACCESS_LOG: &str = "plantd::access";

/// Lets a client send the body that it announces by `Expect: 100-continue`, or answers at the gate
/// instead.
pub(crate) fn before_continue(gate: &Gate, request: Request) -> Result<Request, Response<BoxBody>> {
    match gate.check(request.head()) {
        Ok(()) => Ok(request),
        Err(failure) => Err(Exchange::begin(&request).end(failure.into())),
    }
}

/// One request from its head to its answer.
pub(crate) struct Exchange {
    begun: Instant,
    id: HeaderValue,
    /// What the access log tells of the request. It holds no query, no header but the id, no body:
    /// each may hold a secret.
    line: Option<String>,
    connection: Option<Rc<ConnectionState>>,
    /// The status of the answer, when it has begun.
    status: Option<StatusCode>,
}

impl Exchange {
    pub(crate) fn begin(request: &Request) -> Self {
        let line = log::log_enabled!(target: ACCESS_LOG, log::Level::Info).then(|| {
            let peer = request.conn_data::<Peer>().map_or_else(|| "-".to_owned(), Peer::to_string);
            format!("{peer} {} {}", request.method(), request.path())
        });
        let connection = request.conn_data::<Rc<ConnectionState>>().map(Rc::clone);
        if let Some(connection) = &connection {
            connection.request_begins(has_body(request));
        }
        Self { begun: Instant::now(), id: request_id(request), line, connection, status: None }
    }

    /// Nothing is done for a request that was sent behind an answer that closes its connection.
    pub(crate) fn check_open(&self) -> Result<(), Failure> {
        match &self.connection {
            Some(connection) if connection.is_closing() => Err(Failure::new(
                ErrorNumber::Busy,
                "the connection was closed by the answer before this one, and nothing was done; \
                 send the request on another connection",
            )),
            _ => Ok(()),
        }
    }

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
        log::error!("request {}: {cause}", self.id());
        Failure::internal().into()
    }

    fn id(&self) -> &str {
        // It is visible ASCII, or we made it.
        self.id.to_str().unwrap_or_default()
    }

    fn end(mut self, mut response: Response<BoxBody>) -> Response<BoxBody> {
        let id = self.id();
        if let Some(Cause(cause)) = response.extensions().get() {
            log::error!("request {id}: {cause}");
        }
        self.status = Some(response.status());
        if let Some(connection) = &self.connection {
            connection.answer_begins();
            if connection.is_closing() {
                response.head_mut().set_connection_type(ConnectionType::Close);
            }
        }
        response.headers_mut().insert(REQUEST_ID, self.id.clone());
        if response.body().size() == BodySize::Stream {
            // The connection still is busy with the answer, and may be for long.
            return response.map_body(|_, body| BoxBody::new(Streamed { body, exchange: self }));
        }
        response
    }
}

/// However an answer ends, whole or cut.
impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            // Without a status, the client went away before its answer began.
            let status = self.status.as_ref().map_or("-", StatusCode::as_str);
            let micros = self.begun.elapsed().as_micros();
            log::info!(target: ACCESS_LOG, "{line} {status} {micros}us id={}", self.id());
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
            log::error!("request {}: the answer broke off: {cause}", self.exchange.id());
        }
        part
    }
}

/// Whether the request's head announces a body.
fn has_body(request: &Request) -> bool {
    let headers = request.headers();
    let length = headers.get(header::CONTENT_LENGTH);
    headers.contains_key(header::TRANSFER_ENCODING) || length.is_some_and(|length| length != "0")
}

/// The client's own id for the request, when it can stand in a log line, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let mut sent = request.headers().get_all(REQUEST_ID);
    match (sent.next(), sent.next()) {
        (Some(id), None)
            if (1..=REQUEST_ID_MAX_CHARACTERS).contains(&id.len())
                && id.as_bytes().iter().all(u8::is_ascii_graphic) =>
        {
            id.clone()
        }
        _ => {
            let mut text = Uuid::encode_buffer();
            let id = Uuid::now_v7().hyphenated().encode_lower(&mut text);
            HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("-"))
        }
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
        connection.request_begins(false);
        let exchange = Exchange {
            begun: Instant::now(),
            id: HeaderValue::from_static("-"),
            line: None,
            connection: Some(Rc::clone(&connection)),
            status: None,
        };
        let body = BodyStream::new(stream::pending::<Result<Bytes, Infallible>>());
        let answer = exchange.end(Response::ok().set_body(BoxBody::new(body)));
        assert!(connection.deadline().is_none(), "the client would be cut off");
        drop(answer);
        assert!(connection.deadline().is_some(), "the next request has to come in time");
    }
}
