//! A JSON body, read in bounded memory and bounded time.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use actix_http::Payload;
use actix_http::header::{self, HeaderMap};
use actix_web::web::{Bytes, BytesMut};
use actix_web::{FromRequest, HttpRequest};
use futures_util::StreamExt as _;

use crate::connection::ConnectionState;
use crate::failure::{ErrorNumber, Failure};

/// The largest body that is read, in bytes.
pub const BODY_MAX_BYTES: usize = 64 * 1024;

/// How long a body may take to arrive, from the end of its request's head on.
pub const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// The bytes of a body that is said to be JSON.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl FromRequest for JsonBody {
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Failure>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let checked =
            check_media_type(request.headers()).and_then(|()| check_length(request.headers()));
        let payload = payload.take();
        let connection = request.conn_data::<Rc<ConnectionState>>().map(Rc::clone);
        Box::pin(async move {
            checked?;
            let body = tokio::time::timeout(BODY_DEADLINE, read(payload)).await;
            let body = body.unwrap_or_else(|_| Err(did_not_arrive()))?;
            if let Some(connection) = connection {
                connection.body_was_read();
            }
            Ok(Self(body))
        })
    }
}

/// `application/json`, in any case, with `charset=utf-8` or no charset, and not compressed.
fn check_media_type(headers: &HeaderMap) -> Result<(), Failure> {
    let mut content_types = headers.get_all(header::CONTENT_TYPE);
    let is_json = match (content_types.next(), content_types.next()) {
        (Some(content_type), None) => content_type.to_str().is_ok_and(is_json),
        _ => false,
    };
    if !is_json {
        return Err(Failure::new(
            ErrorNumber::WrongContentType,
            "the content type must be application/json; send the header \
             `Content-Type: application/json` once",
        ));
    }
    if headers
        .get_all(header::CONTENT_ENCODING)
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Failure::new(
            ErrorNumber::WrongContentType,
            "the body must not be compressed; leave out the Content-Encoding header",
        ));
    }
    Ok(())
}

fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    // RFC 8259 defines no parameters, but many clients send a charset.
    let wrong_charset = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            !value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => false,
    };
    essence.eq_ignore_ascii_case("application/json") && !parts.any(wrong_charset)
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

async fn read(mut payload: Payload) -> Result<Bytes, Failure> {
    // Almost every body comes in one piece, which then needs no copy.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|cause| {
            Failure::new(ErrorNumber::NotJson, format!("the body did not arrive whole: {cause}"))
        })?;
        if first.len() + all.len() + chunk.len() > BODY_MAX_BYTES {
            return Err(too_large());
        }
        if first.is_empty() && all.is_empty() {
            first = chunk;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&chunk);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn too_large() -> Failure {
    Failure::new(
        ErrorNumber::BodyTooLarge,
        format!("the body is too large; it may have {BODY_MAX_BYTES} bytes"),
    )
}

fn did_not_arrive() -> Failure {
    let seconds = BODY_DEADLINE.as_secs();
    Failure::new(
        ErrorNumber::RequestTimeout,
        format!("the body did not arrive within {seconds} s; send the request again"),
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
            assert!(is_json(json), "{json}");
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
            assert!(!is_json(other), "{other}");
        }
    }
}
