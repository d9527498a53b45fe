//! Which web pages of other origins may talk to the service (the Fetch standard, section "CORS protocol").
//!
//! Browsers ask; nobody else cares. A token is sent by the page itself and never by the browser, so that
//! no answer has to allow credentials.

use std::fmt;
use std::str::FromStr;

use actix_http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_http::{Method, RequestHead};
use actix_web::http::Uri;

/// What a page may send beyond what every page may.
const REQUEST_HEADERS: &str =
    "authorization, content-type, idempotency-key, if-match, if-none-match, x-request-id";

/// What a page may see of an answer beyond what every page may.
const ANSWER_HEADERS: &str =
    "etag, link, location, retry-after, www-authenticate, x-request-id, x-total-count";

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";

/// For how many seconds a browser need not ask again.
const MAX_AGE_SECONDS: u16 = 7200;

/// The origin of a web page (RFC 6454): `http` or `https`, a host, and a port that is not the scheme's own.
///
/// ```
/// use plant_http::CorsOrigin;
///
/// assert!("https://plants.example".parse::<CorsOrigin>().is_ok());
/// assert!("https://plants.example/garden".parse::<CorsOrigin>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsOrigin(HeaderValue);

impl FromStr for CorsOrigin {
    type Err = CorsOriginError;

    fn from_str(text: &str) -> Result<Self, CorsOriginError> {
        let uri: Uri = text.parse().map_err(|_| CorsOriginError::NotAnOrigin)?;
        let (scheme, authority) =
            uri.scheme_str().zip(uri.authority()).ok_or(CorsOriginError::NotAnOrigin)?;
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(CorsOriginError::NotAnOrigin),
        };
        if authority.as_str().contains('@') || authority.as_str().ends_with(':') {
            return Err(CorsOriginError::NotAnOrigin);
        }
        if uri.port_u16() == Some(default_port) {
            return Err(CorsOriginError::DefaultPort(default_port));
        }
        let origin = format!("{scheme}://{authority}").to_ascii_lowercase();
        if text != origin {
            return Err(CorsOriginError::NotAsSent(origin));
        }
        HeaderValue::from_str(&origin).map(Self).map_err(|_| CorsOriginError::NotAnOrigin)
    }
}

/// Why a text is no [`CorsOrigin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorsOriginError {
    /// It is no origin of a web page.
    #[error("an origin is a scheme, a host and maybe a port, such as https://plants.example")]
    NotAnOrigin,
    /// It names the port of its scheme.
    #[error("browsers leave out :{0}, so leave it out")]
    DefaultPort(u16),
    /// Browsers write this origin in another way.
    #[error("browsers send {0}, so say it in this way")]
    NotAsSent(String),
}

impl fmt::Display for CorsOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.0.to_str().unwrap_or_default())
    }
}

/// Says to browsers what pages may do.
#[derive(Debug)]
pub(crate) struct Cors {
    origins: Vec<CorsOrigin>,
}

/// What a browser asks for a page.
#[derive(Debug)]
pub(crate) struct CorsQuestion {
    /// The page's origin, which is one that we know.
    origin: Option<CorsOrigin>,
    /// Whether it asks before it sends.
    is_preflight: bool,
}

impl Cors {
    pub(crate) fn new(origins: Vec<CorsOrigin>) -> Self {
        Self { origins }
    }

    /// What the request asks. `None` when no page of another origin may do anything.
    pub(crate) fn question(&self, head: &RequestHead) -> Option<CorsQuestion> {
        if self.origins.is_empty() {
            return None;
        }
        let headers = head.headers();
        let sent = headers.get(header::ORIGIN);
        let origin = self.origins.iter().find(|origin| Some(&origin.0) == sent).cloned();
        let is_preflight = head.method == Method::OPTIONS
            && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        Some(CorsQuestion { origin, is_preflight })
    }
}

impl CorsQuestion {
    pub(crate) fn answer(&self, headers: &mut HeaderMap) {
        // Another origin gets another answer, also where this one is not allowed.
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        let Some(CorsOrigin(origin)) = &self.origin else { return };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let mut allow = |name: HeaderName, value: &'static str| {
            headers.insert(name, HeaderValue::from_static(value));
        };
        if self.is_preflight {
            allow(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            allow(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(MAX_AGE_SECONDS));
        } else {
            allow(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_as_browsers_send_it() {
        for good in ["https://plants.example", "http://localhost:8000", "https://[::1]:444"] {
            assert_eq!(good.parse::<CorsOrigin>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "*",
            "null",
            "plants.example",
            "//plants.example",
            "https://",
            "https://plants.example/",
            "https://plants.example/garden",
            "https://plants.example?x",
            "https://Plants.example",
            "https://plants.example:443",
            "https://plants.example:",
            "http://plants.example:80",
            "https://user@plants.example",
            "ftp://plants.example",
            "https://plants.example https://other.example",
        ] {
            assert!(bad.parse::<CorsOrigin>().is_err(), "{bad:?}");
        }
    }
}
