//! Bodies, read in bounded memory and bounded time.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use actix_http::Payload;
use actix_http::header::{self, HeaderMap};
use actix_web::web::{Bytes, BytesMut};
use actix_web::{FromRequest, HttpRequest};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use crate::errors::{ErrorNumber, Failure};
use crate::server::http1::connection::ConnectionState;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// The largest body that is read, in bytes.
pub const BODY_MAX_BYTES: usize = 64 * 1024;

/// How long a body may take to arrive, from the end of its request's head on.
pub const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// How long the next part of a body of any length may take to arrive.
pub const BODY_IDLE_DEADLINE: Duration = Duration::from_secs(10);

/// How long the rest of a body is read that nobody wants any more, so that the client can finish
/// sending and hears the answer.
const DISCARD_DEADLINE: Duration = Duration::from_secs(10);

/// The bytes of a body that is said to be JSON.
pub(crate) struct JsonBody(pub(crate) Bytes);

/// The bytes of a body that is said to be a merge patch (RFC 7396), or JSON at least.
pub(crate) struct MergePatchBody(pub(crate) Bytes);

type Reading<T> = Pin<Box<dyn Future<Output = Result<T, Failure>>>>;

impl FromRequest for JsonBody {
    type Error = Failure;
    type Future = Reading<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let reading = read_whole(request, payload, &[JSON]);
        Box::pin(async { Ok(Self(reading?.await?)) })
    }
}

impl FromRequest for MergePatchBody {
    type Error = Failure;
    type Future = Reading<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let reading = read_whole(request, payload, &[MERGE_PATCH, JSON]);
        Box::pin(async { Ok(Self(reading?.await?)) })
    }
}

/// A body of any length, part by part.
pub(crate) struct BodyStream {
    payload: Payload,
    connection: Option<Rc<ConnectionState>>,
    /// It has come to its end, or nothing more of it can be had.
    has_ended: bool,
    /// What was read ahead of time.
    ahead: Option<Option<Result<Bytes, Failure>>>,
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
        Self { payload: payload.take(), connection, has_ended: false, ahead: None }
    }

    /// The next part; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        self.next_until(Instant::now() + BODY_IDLE_DEADLINE, BODY_IDLE_DEADLINE).await
    }

    /// Whether the next part, or the end, is there already.
    pub(crate) fn is_next_there(&mut self) -> bool {
        if self.ahead.is_none() {
            self.ahead = self.read().now_or_never();
        }
        self.ahead.is_some()
    }

    /// Reads the rest, for a while, and forgets it: a client that still sends would miss the answer.
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
        let next = match self.ahead.take() {
            Some(next) => next,
            None => {
                let next = timeout_at(deadline, self.read()).await;
                next.unwrap_or_else(|_| Some(Err(did_not_arrive(allowed))))
            }
        };
        self.has_ended = !matches!(next, Some(Ok(_)));
        if next.is_none()
            && let Some(connection) = &self.connection
        {
            connection.body_was_read();
        }
        next.transpose()
    }

    async fn read(&mut self) -> Option<Result<Bytes, Failure>> {
        let part = self.payload.next().await?;
        Some(part.map_err(|_| not_whole()))
    }
}

/// Checks the head, and returns what reads the body.
fn read_whole(
    request: &HttpRequest,
    payload: &mut Payload,
    media_types: &[&str],
) -> Result<impl Future<Output = Result<Bytes, Failure>> + use<>, Failure> {
    let headers = request.headers();
    check_media_type(headers, media_types)?;
    check_length(headers)?;
    let mut body = BodyStream::new(request, payload);
    let deadline = Instant::now() + BODY_DEADLINE;
    Ok(async move {
        // Almost every body comes in one piece, which then needs no copy.
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(part) = body.next_until(deadline, BODY_DEADLINE).await? {
            if first.len() + all.len() + part.len() > BODY_MAX_BYTES {
                return Err(too_large());
            }
            if first.is_empty() && all.is_empty() {
                first = part;
            } else {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&part);
            }
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    })
}

/// Whether the content type is one of these media types, in any case, with `charset=utf-8` or no
/// charset, and the body not compressed. It is the one that is returned.
pub(crate) fn check_media_type<'a>(
    headers: &HeaderMap,
    media_types: &[&'a str],
) -> Result<&'a str, Failure> {
    let mut content_types = headers.get_all(header::CONTENT_TYPE);
    let content_type = match (content_types.next(), content_types.next()) {
        (Some(content_type), None) => content_type.to_str().unwrap_or_default(),
        _ => "",
    };
    let media_type = media_types.iter().find(|media_type| is_media_type(content_type, media_type));
    let media_type = media_type.ok_or_else(|| wrong_media_type(media_types))?;
    if headers
        .get_all(header::CONTENT_ENCODING)
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Failure::new(
            ErrorNumber::WrongContentType,
            "the body must not be compressed; leave out the Content-Encoding header",
        ));
    }
    Ok(media_type)
}

fn is_media_type(content_type: &str, media_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    // RFC 8259 defines no parameters, but many clients send a charset.
    let wrong_charset = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            !value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => false,
    };
    essence.eq_ignore_ascii_case(media_type) && !parts.any(wrong_charset)
}

/// Spares a client that says what it is about to send the sending.
fn check_length(headers: &HeaderMap) -> Result<(), Failure> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length.map(str::parse::<usize>) {
        Some(Ok(length)) if length <= BODY_MAX_BYTES => Ok(()),
        None => Ok(()),
        Some(_) => Err(too_large()),
    }
}

pub(crate) fn wrong_media_type(media_types: &[&str]) -> Failure {
    let media_types = media_types.join(" or ");
    Failure::new(
        ErrorNumber::WrongContentType,
        format!("the Content-Type header must stand once and be {media_types}, in UTF-8"),
    )
}

pub(crate) fn too_large() -> Failure {
    Failure::new(
        ErrorNumber::BodyTooLarge,
        format!("the body is too large; it may have {BODY_MAX_BYTES} bytes"),
    )
}

/// actix-http gives one error for a body that ends early and for chunks that are broken.
pub(crate) fn not_whole() -> Failure {
    Failure::new(
        ErrorNumber::NotJson,
        "the body did not arrive whole, or its chunks are broken; send all of it, in chunks as in RFC 9112, \
         section 7.1, or with a Content-Length",
    )
}

pub(crate) fn did_not_arrive(allowed: Duration) -> Failure {
    let seconds = allowed.as_secs();
    Failure::new(
        ErrorNumber::RequestTimeout,
        format!("nothing, or not all, of the body arrived within {seconds} s; send it again"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_known_by_its_media_type() {
        for json in [
            "application/json",
            "Application/JSON",
            "application/json;charset=utf-8",
            "application/json; charset=\"UTF-8\"",
            "application/json; profile=x",
        ] {
            assert!(is_media_type(json, JSON), "{json}");
        }
        for other in [
            "",
            "json",
            "text/json",
            "text/plain",
            "application/jsonx",
            "application/problem+json",
            "application/json, text/plain",
            "application/json; charset=latin1",
            "application/x-www-form-urlencoded",
        ] {
            assert!(!is_media_type(other, JSON), "{other}");
        }
    }
}
