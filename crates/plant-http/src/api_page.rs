//! The page that shows the interface and tries it out: Swagger UI, with all that it needs. A browser that has
//! the page asks nobody else for anything.
//!
//! Everybody gets these files, also without a token.

use std::convert::Infallible;
use std::sync::OnceLock;

use actix_http::Method;
use actix_http::body::BodyStream;
use actix_http::header::{self, HeaderValue};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::stream;
use sha2::{Digest as _, Sha256};

use crate::entity_tag::if_none_match_names;
use crate::failure::Failure;

/// What the page may do: take its own script and style from here, send requests to here, and show images that
/// stand within the style. Nothing stands inline, no text becomes a script, no other page may have it in a frame.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// How much of a file is handed over at a time. A client that does not take it costs not much more than that.
const PART_BYTES: usize = 16 * 1024;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// `GET /docs`.
pub(crate) async fn page(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: File = File::new(HTML, include_str!("api_page/page.html"));
    FILE.answer(&request)
}

/// `GET /docs/page.js`, which starts Swagger UI.
pub(crate) async fn script(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: File = File::new(SCRIPT, include_str!("api_page/page.js"));
    FILE.answer(&request)
}

/// `GET /docs/swagger-ui-bundle.js`.
pub(crate) async fn swagger_ui(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: File = File::new(SCRIPT, include_str!("../swagger-ui/swagger-ui-bundle.js"));
    FILE.answer(&request)
}

/// `GET /docs/swagger-ui.css`.
pub(crate) async fn swagger_ui_style(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: File = File::new(STYLE, include_str!("../swagger-ui/swagger-ui.css"));
    FILE.answer(&request)
}

/// `GET /docs/swagger-ui-bundle.js.LICENSE.txt`, to which the first line of the bundle points: the notices and the
/// licences under which Swagger UI, and what is in it, may be handed on.
pub(crate) async fn swagger_ui_licenses(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: File = File::new(
        TEXT,
        concat!(
            include_str!("../swagger-ui/NOTICE"),
            include_str!("../swagger-ui/LICENSE"),
            include_str!("../swagger-ui/swagger-ui-bundle.js.LICENSE.txt"),
        ),
    );
    FILE.answer(&request)
}

/// A file that is a part of the program.
struct File {
    content_type: &'static str,
    content: &'static str,
    /// Made when it is asked for.
    entity_tag: OnceLock<String>,
}

impl File {
    const fn new(content_type: &'static str, content: &'static str) -> Self {
        Self { content_type, content, entity_tag: OnceLock::new() }
    }

    fn answer(&'static self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        let opaque = self
            .entity_tag
            .get_or_init(|| BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.content)));
        let entity_tag = (header::ETAG, format!("\"{opaque}\""));
        // A browser takes the headers of a 304 in place of those that it has.
        let policy = (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
        if if_none_match_names(request.headers(), opaque.as_bytes())? {
            return Ok(HttpResponse::NotModified()
                .insert_header(entity_tag)
                .insert_header(policy)
                .finish());
        }
        // As a stream, of which a part is taken when the one before it is sent. HEAD has no body.
        let sent = if request.method() == Method::HEAD { "" } else { self.content };
        let parts = sent.as_bytes().chunks(PART_BYTES).map(Bytes::from_static);
        Ok(HttpResponse::Ok()
            .content_type(self.content_type)
            .insert_header(entity_tag)
            .insert_header(policy)
            .no_chunking(self.content.len() as u64)
            .body(BodyStream::new(stream::iter(parts.map(Ok::<_, Infallible>)))))
    }
}
