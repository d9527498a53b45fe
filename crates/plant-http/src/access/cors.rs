//! Which web pages of other origins may use the service (the Fetch standard, section "CORS protocol").
//!
//! A page's own code sends the token, and the browser never does, so no answer allows credentials.

use std::str::FromStr;

use actix_http::header::{self, HeaderName, HeaderValue};
use actix_http::{Method, RequestHead};
use url::Url;

/// The headers that a page may send beyond the safelisted ones.
const REQUEST_HEADERS: &str = "authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, \
                               traceparent, tracestate, x-request-id";

/// The headers of an answer that a page may read beyond the safelisted ones.
const ANSWER_HEADERS: &str = "etag, link, location, retry-after, www-authenticate, x-events-after, \
                              x-history-complete, x-request-id, x-searched-to, x-total-count";

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";

/// How long a browser may keep the answer to a preflight request.
const MAX_AGE_SECONDS: &str = "7200";

/// The origin of a web page as browsers send it (URL Standard and HTML Standard, serialization of an origin): `http` or
/// `https`, a host, and a port unless it is the scheme's default, such as `https://plants.example`. Any other way to write
/// the same origin is refused, because no browser sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsOrigin(HeaderValue);

impl FromStr for CorsOrigin {
    type Err = CorsOriginError;

    fn from_str(text: &str) -> Result<Self, CorsOriginError> {
        let refuse = |what: &str| {
            Err(CorsOriginError(format!(
                "{what}; an origin is a scheme, a host and maybe a port, such as https://plants.example"
            )))
        };
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(cause) => return refuse(&cause.to_string()),
        };
        if !matches!(url.scheme(), "http" | "https") {
            return refuse("the scheme is neither http nor https");
        }
        if url.port() == Some(0) {
            return refuse("port 0 is not valid");
        }
        let origin = url.origin().ascii_serialization();
        if origin.contains('*') {
            return refuse("wildcards are not supported; give each origin");
        }
        if text != origin {
            return Err(CorsOriginError(format!("browsers send {origin}, so write it that way")));
        }
        HeaderValue::from_str(&origin).map(Self).map_err(|cause| CorsOriginError(cause.to_string()))
    }
}

/// Why a text is no [`CorsOrigin`], and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CorsOriginError(String);

/// The CORS headers for the answer to this request. The list is empty if no other origin is allowed.
pub(crate) fn answer_headers(
    origins: &[CorsOrigin],
    head: &RequestHead,
) -> Vec<(HeaderName, HeaderValue)> {
    if origins.is_empty() {
        return Vec::new();
    }
    // Caches must store the answers for each origin separately, even if this origin is not allowed.
    let mut answer = vec![(header::VARY, HeaderValue::from_static("origin"))];
    let sent = head.headers().get(header::ORIGIN);
    let Some(CorsOrigin(origin)) = origins.iter().find(|origin| Some(&origin.0) == sent) else {
        return answer;
    };
    answer.push((header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()));
    let is_preflight = head.method == Method::OPTIONS
        && head.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let others = if is_preflight {
        &[
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS),
        ][..]
    } else {
        &[(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS)]
    };
    let others = others.iter();
    answer.extend(others.map(|(name, value)| (name.clone(), HeaderValue::from_static(value))));
    answer
}
