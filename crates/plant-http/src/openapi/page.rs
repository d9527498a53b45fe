//! Swagger UI: the page that documents the interface and can send requests to it, with all its files. The page needs no
//! other server, and no token.

use crate::openapi::static_file::StaticFile;

/// The page may load scripts and styles, send requests and show images from this server only; images may also be within
/// the style. It has no inline code, evaluates no text, and no other page may frame it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The page and its files, each with its path.
pub(crate) static FILES: [(&str, StaticFile); 6] = [
    ("/docs", file("text/html; charset=utf-8", include_str!("page_files/page.html"))),
    // Starts Swagger UI.
    ("/docs/page.js", file(SCRIPT, include_str!("page_files/page.js"))),
    // Makes Swagger UI fit a phone.
    ("/docs/page.css", file(STYLE, include_str!("page_files/page.css"))),
    (
        "/docs/swagger-ui-bundle.js",
        file(SCRIPT, include_str!("../../swagger-ui/swagger-ui-bundle.js")),
    ),
    // The first line of the bundle points to these notices and licenses of Swagger UI and its parts.
    (
        "/docs/swagger-ui-bundle.js.LICENSE.txt",
        file(
            "text/plain; charset=utf-8",
            concat!(
                include_str!("../../swagger-ui/NOTICE"),
                include_str!("../../swagger-ui/LICENSE"),
                include_str!("../../swagger-ui/swagger-ui-bundle.js.LICENSE.txt"),
            ),
        ),
    ),
    ("/docs/swagger-ui.css", file(STYLE, include_str!("../../swagger-ui/swagger-ui.css"))),
];

const fn file(content_type: &'static str, content: &'static str) -> StaticFile {
    StaticFile::new(content_type, content, Some(CONTENT_SECURITY_POLICY))
}
