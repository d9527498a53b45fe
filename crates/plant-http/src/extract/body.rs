//! Bodies, read in bounded memory and time.

use std::pin::Pin;
use std::time::Duration;

use actix_http::Payload;
use actix_http::header::{self, HeaderMap};
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpRequest};
use futures_util::stream::Peekable;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use crate::errors::{ErrorNumber, Failure, late_body, too_large};
use crate::extract::media_type::check_media_type;
use crate::limits::{
    BATCH_BODY_DEADLINE, BATCH_BODY_MAX_BYTES, BODY_DEADLINE, BODY_IDLE_DEADLINE, BODY_MAX_BYTES,
};
use crate::server::http1::ClientConnection;

/// How long the unwanted rest of a body is read and dropped. Without this, a client that is still sending
/// would miss the answer.
const DISCARD_DEADLINE: Duration = Duration::from_secs(10);

/// A body of text may begin with it, and it is no part of the text. RFC 8259, section 8.1, lets parsers of JSON ignore it.
pub(crate) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A body of any length, part by part.
pub(crate) struct BodyStream {
    payload: Peekable<Payload>,
    connection: ClientConnection,
    /// The body has ended or failed.
    has_ended: bool,
}

impl FromRequest for BodyStream {
    type Error = Failure;
    type Future = std::future::Ready<Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        std::future::ready(Ok(Self::new(request, payload)))
    }
}

impl BodyStream {
    fn new(request: &HttpRequest, payload: &mut Payload) -> Self {
        let connection = ClientConnection::of(request);
        Self { payload: payload.take().peekable(), connection, has_ended: false }
    }

    /// The next part; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        self.next_until(Instant::now() + BODY_IDLE_DEADLINE, BODY_IDLE_DEADLINE).await
    }

    /// Whether the next part, or the end, has already arrived.
    pub(crate) fn is_next_there(&mut self) -> bool {
        Pin::new(&mut self.payload).peek().now_or_never().is_some()
    }

    /// Reads and drops the rest, for at most [`DISCARD_DEADLINE`].
    pub(crate) async fn discard(&mut self) {
        if self.has_ended {
            return;
        }
        let deadline = Instant::now() + DISCARD_DEADLINE;
        while let Ok(Some(_)) = self.next_until(deadline, DISCARD_DEADLINE).await {}
    }

    async fn next_until(
        &mut self,
        deadline: Instant,
        allowed: Duration,
    ) -> Result<Option<Bytes>, Failure> {
        let next = match timeout_at(deadline, self.payload.next()).await {
            Ok(next) => next.map(|part| part.map_err(|_| not_whole())),
            Err(_) => Some(Err(Failure::new(ErrorNumber::RequestTimeout, late_body(allowed)))),
        };
        self.has_ended = !matches!(next, Some(Ok(_)));
        if next.is_none() {
            self.connection.body_was_read();
        }
        next.transpose()
    }
}

/// How large a body may be, and how long it may take to arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) max_bytes: usize,
    pub(crate) deadline: Duration,
}

impl BodyLimits {
    /// The limits of a body with one resource.
    pub(crate) const RESOURCE: Self = Self { max_bytes: BODY_MAX_BYTES, deadline: BODY_DEADLINE };

    pub(crate) const BATCH: Self =
        Self { max_bytes: BATCH_BODY_MAX_BYTES, deadline: BATCH_BODY_DEADLINE };

    /// The length that the head announces. Fails if that is too long.
    fn announced(&self, headers: &HeaderMap) -> Result<Option<usize>, Failure> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        match length.map(str::parse) {
            Some(Ok(length)) if length <= self.max_bytes => Ok(Some(length)),
            None => Ok(None),
            Some(_) => Err(body_too_large(self.max_bytes)),
        }
    }
}

/// A body that is read whole.
pub(super) struct WholeBody {
    stream: BodyStream,
    limits: BodyLimits,
    deadline: Instant,
    announced: Option<usize>,
    arrived: Vec<u8>,
}

impl WholeBody {
    /// Checks the head.
    pub(super) fn new(
        request: &HttpRequest,
        payload: &mut Payload,
        media_types: &[&str],
        limits: BodyLimits,
    ) -> Result<Self, Failure> {
        check_media_type(request.headers(), media_types)?;
        let announced = limits.announced(request.headers())?;
        let stream = BodyStream::new(request, payload);
        let deadline = Instant::now() + limits.deadline;
        Ok(Self { stream, limits, deadline, announced, arrived: Vec::new() })
    }

    /// The most bytes that the body can have.
    pub(super) fn most_bytes(&self) -> usize {
        let known = if self.stream.has_ended { Some(self.arrived.len()) } else { self.announced };
        known.unwrap_or(self.limits.max_bytes)
    }

    /// Reads until at least this many bytes have arrived, or the body has ended.
    pub(super) async fn read(&mut self, bytes: usize) -> Result<(), Failure> {
        while self.arrived.len() < bytes && !self.stream.has_ended {
            let now = Instant::now();
            let deadline = self.deadline.min(now + BODY_IDLE_DEADLINE);
            let allowed =
                if deadline == self.deadline { self.limits.deadline } else { BODY_IDLE_DEADLINE };
            let Some(part) = self.stream.next_until(deadline, allowed).await? else { break };
            if self.arrived.len() + part.len() > self.limits.max_bytes {
                return Err(body_too_large(self.limits.max_bytes));
            }
            self.arrived.extend_from_slice(&part);
        }
        Ok(())
    }

    /// Reads the rest. Returns the body without a byte order mark.
    pub(super) async fn read_to_end(mut self) -> Result<Vec<u8>, Failure> {
        if let Some(length) = self.announced {
            self.arrived.reserve_exact(length.saturating_sub(self.arrived.len()));
        }
        self.read(usize::MAX).await?;
        if self.arrived.starts_with(BYTE_ORDER_MARK) {
            self.arrived.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(self.arrived)
    }
}

pub(crate) fn body_too_large(max_bytes: usize) -> Failure {
    Failure::new(ErrorNumber::BodyTooLarge, too_large(max_bytes))
}

/// The failure of a body that ends early or has broken chunks: actix-http has one error for both.
pub(crate) fn not_whole() -> Failure {
    Failure::new(
        ErrorNumber::NotJson,
        "the body did not arrive whole, or its chunks are broken; send all of it, in chunks as in RFC 9112, \
         section 7.1, or with a Content-Length",
    )
}
