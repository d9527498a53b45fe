//! What happens to every request, whatever its path: it gets an id, it passes the gate or not, a
//! panic becomes an answer, and its end is logged.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Instant;

use actix_http::body::BoxBody;
use actix_http::header::{self, HeaderName, HeaderValue};
use actix_http::{ConnectionType, HttpMessage as _, Request, Response};
use futures_util::FutureExt as _;
use uuid::Uuid;

use crate::connection::ConnectionState;
use crate::failure::{Cause, ErrorNumber, Failure};
use crate::gate::Gate;

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
}

impl Exchange {
    pub(crate) fn begin(request: &Request) -> Self {
        let line = log::log_enabled!(target: ACCESS_LOG, log::Level::Info).then(|| {
            let peer = request.peer_addr().map_or_else(|| "-".to_owned(), |peer| peer.to_string());
            format!("{peer} {} {}", request.method(), request.path())
        });
        let connection = request.conn_data::<Rc<ConnectionState>>().map(Rc::clone);
        if let Some(connection) = &connection {
            connection.request_begins(has_body(request));
        }
        Self { begun: Instant::now(), id: request_id(request), line, connection }
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

    fn end(self, mut response: Response<BoxBody>) -> Response<BoxBody> {
        let id = self.id();
        if let Some(Cause(cause)) = response.extensions().get() {
            log::error!("request {id}: {cause}");
        }
        if let Some(line) = &self.line {
            let status = response.status().as_u16();
            let micros = self.begun.elapsed().as_micros();
            log::info!(target: ACCESS_LOG, "{line} {status} {micros}us id={id}");
        }
        if let Some(connection) = self.connection {
            connection.request_ends();
            if connection.is_closing() {
                response.head_mut().set_connection_type(ConnectionType::Close);
            }
        }
        response.headers_mut().insert(REQUEST_ID, self.id);
        response
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
