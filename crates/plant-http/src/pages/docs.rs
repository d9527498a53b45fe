//! `/docs`: Swagger UI, the page that documents the interface and can send requests to it. The page needs no other
//! server, and no token. It looks like the page at `/`, whose style sheet it shares.

use crate::pages::static_file::{PAGE, SCRIPT, STYLE, StaticFile, TEXT};

/// Allows scripts, styles, images and requests of this server only, and images within the styles. Forbids inline code,
/// `eval`, and frames around the page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) static FILES: [(&str, StaticFile); 6] = [
    ("/docs", file(PAGE, include_str!("../../web/docs/page.html"))),
    // Starts Swagger UI.
    ("/docs/page.js", file(SCRIPT, include_str!("../../web/docs/page.js"))),
    // Makes Swagger UI look like the page at `/`, and fit a phone.
    ("/docs/page.css", file(STYLE, include_str!("../../web/docs/page.css"))),
    (
        "/docs/swagger-ui-bundle.js",
        file(SCRIPT, include_str!("../../web/docs/swagger-ui/swagger-ui-bundle.js")),
    ),
    // The first line of the bundle points to these notices and licenses of Swagger UI and its parts.
    (
        "/docs/swagger-ui-bundle.js.LICENSE.txt",
        file(
            TEXT,
            concat!(
                include_str!("../../web/docs/swagger-ui/NOTICE"),
                include_str!("../../web/docs/swagger-ui/LICENSE"),
                include_str!("../../web/docs/swagger-ui/swagger-ui-bundle.js.LICENSE.txt"),
            ),
        ),
    ),
    ("/docs/swagger-ui.css", file(STYLE, include_str!("../../web/docs/swagger-ui/swagger-ui.css"))),
];

const fn file(content_type: &'static str, content: &'static str) -> StaticFile {
    StaticFile::new(content_type, content, Some(CONTENT_SECURITY_POLICY))
}
