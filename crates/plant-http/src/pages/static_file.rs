//! Files that are part of the program, served without a token.

use std::sync::OnceLock;

use actix_http::header::{self, HeaderValue};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::errors::Failure;
use crate::extract::entity_tag::if_none_match_names;

pub(super) const PAGE: &str = "text/html; charset=utf-8";
pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";
pub(super) const STYLE: &str = "text/css; charset=utf-8";
pub(super) const IMAGE: &str = "image/svg+xml";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// A text file with its media type.
pub(crate) struct StaticFile {
    content_type: &'static str,
    content: &'static str,
    /// Replaces the stricter policy of all other answers.
    content_security_policy: Option<&'static str>,
    /// Computed at the first request.
    entity_tag: OnceLock<String>,
}

impl StaticFile {
    pub(crate) const fn new(
        content_type: &'static str,
        content: &'static str,
        content_security_policy: Option<&'static str>,
    ) -> Self {
        Self { content_type, content, content_security_policy, entity_tag: OnceLock::new() }
    }

    /// Whether this is a script, style or image that a page loads, and not a page that a person opens.
    pub(crate) fn is_part_of_page(&self) -> bool {
        self.content_type != PAGE
    }

    pub(crate) fn answer(&'static self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        let opaque = self
            .entity_tag
            .get_or_init(|| BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.content)));
        if if_none_match_names(request.headers(), opaque.as_bytes())? {
            return Ok(self.with_headers(HttpResponse::NotModified(), opaque).finish());
        }
        Ok(self
            .with_headers(HttpResponse::Ok(), opaque)
            .content_type(self.content_type)
            .body(Bytes::from_static(self.content.as_bytes())))
    }

    fn with_headers(&self, mut response: HttpResponseBuilder, opaque: &str) -> HttpResponseBuilder {
        response.insert_header((header::ETAG, format!("\"{opaque}\"")));
        // A 304 needs the policy too: its headers replace the headers in the browser's cache.
        if let Some(policy) = self.content_security_policy {
            let policy = HeaderValue::from_static(policy);
            response.insert_header((header::CONTENT_SECURITY_POLICY, policy));
        }
        response
    }
}
