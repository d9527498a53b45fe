//! Swagger UI: the page that shows the interface and tries it out, with all its files. A browser requests nothing from
//! other servers for it. No token is needed.

use actix_web::{HttpRequest, HttpResponse};

use crate::errors::Failure;
use crate::openapi::static_file::StaticFile;

/// The page may load scripts and styles, send requests and show images from this server only; images may also be within
/// the style. It has no inline code, evaluates no text, and no other page may frame it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// `GET /docs`.
pub(crate) async fn html(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: StaticFile = file(HTML, include_str!("page_files/page.html"));
    FILE.answer(&request)
}

/// `GET /docs/page.js`, which starts Swagger UI.
pub(crate) async fn script(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: StaticFile = file(SCRIPT, include_str!("page_files/page.js"));
    FILE.answer(&request)
}

/// `GET /docs/page.css`, which makes Swagger UI fit a phone.
pub(crate) async fn style(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: StaticFile = file(STYLE, include_str!("page_files/page.css"));
    FILE.answer(&request)
}

/// `GET /docs/swagger-ui-bundle.js`.
pub(crate) async fn swagger_ui(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: StaticFile = file(SCRIPT, include_str!("../../swagger-ui/swagger-ui-bundle.js"));
    FILE.answer(&request)
}

/// `GET /docs/swagger-ui.css`.
pub(crate) async fn swagger_ui_style(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: StaticFile = file(STYLE, include_str!("../../swagger-ui/swagger-ui.css"));
    FILE.answer(&request)
}

/// `GET /docs/swagger-ui-bundle.js.LICENSE.txt`, to which the first line of the bundle points: the notices and licenses
/// of Swagger UI and its parts.
pub(crate) async fn swagger_ui_licenses(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: StaticFile = file(
        TEXT,
        concat!(
            include_str!("../../swagger-ui/NOTICE"),
            include_str!("../../swagger-ui/LICENSE"),
            include_str!("../../swagger-ui/swagger-ui-bundle.js.LICENSE.txt"),
        ),
    );
    FILE.answer(&request)
}

const fn file(content_type: &'static str, content: &'static str) -> StaticFile {
    StaticFile::new(content_type, content).with_policy(CONTENT_SECURITY_POLICY)
}
