//! Bodies, read in bounded memory and time.

use std::pin::Pin;
use std::rc::Rc;
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
use crate::server::http1::state::ConnectionState;

/// How long the unwanted rest of a body is read and dropped. Without this, a client that is still sending
/// would miss the answer.
const DISCARD_DEADLINE: Duration = Duration::from_secs(10);

/// A body of text may begin with it, and it is no part of the text. RFC 8259, section 8.1, lets parsers of JSON ignore it.
pub(crate) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A body of any length, part by part.
pub(crate) struct BodyStream {
    payload: Peekable<Payload>,
    connection: Option<Rc<ConnectionState>>,
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
        let connection = request.conn_data::<Rc<ConnectionState>>().map(Rc::clone);
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
        if next.is_none()
            && let Some(connection) = &self.connection
        {
            connection.body_was_read();
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

    /// The most bytes that the body can have. Fails if the head announces too many.
    fn most_bytes(&self, headers: &HeaderMap) -> Result<usize, Failure> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        match length.map(str::parse::<usize>) {
            Some(Ok(length)) if length <= self.max_bytes => Ok(length),
            None => Ok(self.max_bytes),
            Some(_) => Err(body_too_large(self.max_bytes)),
        }
    }
}

/// Checks the head. Returns the most bytes that the body can have, and a future that reads it, without a byte order mark.
pub(super) fn read_whole(
    request: &HttpRequest,
    payload: &mut Payload,
    media_types: &[&str],
    limits: BodyLimits,
) -> Result<(usize, impl Future<Output = Result<Vec<u8>, Failure>> + use<>), Failure> {
    let headers = request.headers();
    check_media_type(headers, media_types)?;
    let most_bytes = limits.most_bytes(headers)?;
    let mut body = BodyStream::new(request, payload);
    let deadline = Instant::now() + limits.deadline;
    let reading = async move {
        let mut all = Vec::new();
        while let Some(part) = body.next_until(deadline, limits.deadline).await? {
            if all.len() + part.len() > limits.max_bytes {
                return Err(body_too_large(limits.max_bytes));
            }
            all.extend_from_slice(&part);
        }
        if all.starts_with(BYTE_ORDER_MARK) {
            all.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(all)
    };
    Ok((most_bytes, reading))
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
