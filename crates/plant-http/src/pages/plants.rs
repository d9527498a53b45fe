//! `/`: the page for people. Its scripts use the interface of the service, as any other client does.

use crate::pages::static_file::{IMAGE, PAGE, SCRIPT, STYLE, StaticFile, TEXT};

/// The page may load scripts, styles and images and send requests from and to this server only. It has no inline code,
/// evaluates no text, makes HTML from its own templates only (Trusted Types), and no other page may frame it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types lit-html";

/// The source of a file of the page.
macro_rules! source {
    ($path:literal) => {
        include_str!(concat!("../../web/plants/", $path))
    };
}

/// A file of lit-html.
macro_rules! lit_html {
    ($path:literal) => {
        include_str!(concat!("../../web/lit-html/", $path))
    };
}

pub(super) static FILES: [(&str, StaticFile); 22] = [
    ("/", file(PAGE, source!("page.html"))),
    ("/page/page.css", file(STYLE, source!("page.css"))),
    ("/page/icon.svg", file(IMAGE, source!("icon.svg"))),
    ("/page/main.js", file(SCRIPT, source!("main.js"))),
    ("/page/page_view.js", file(SCRIPT, source!("page_view.js"))),
    ("/page/sign_in.js", file(SCRIPT, source!("sign_in.js"))),
    ("/page/plant_dialog.js", file(SCRIPT, source!("plant_dialog.js"))),
    ("/page/tag_dialog.js", file(SCRIPT, source!("tag_dialog.js"))),
    ("/page/import_dialog.js", file(SCRIPT, source!("import_dialog.js"))),
    ("/page/export_dialog.js", file(SCRIPT, source!("export_dialog.js"))),
    ("/page/plant_list.js", file(SCRIPT, source!("plant_list.js"))),
    ("/page/pages.js", file(SCRIPT, source!("pages.js"))),
    ("/page/plants.js", file(SCRIPT, source!("plants.js"))),
    ("/page/follow.js", file(SCRIPT, source!("follow.js"))),
    ("/page/files.js", file(SCRIPT, source!("files.js"))),
    ("/page/server.js", file(SCRIPT, source!("server.js"))),
    // The page's templates are rendered by lit-html.
    ("/page/lit-html/lit-html.js", file(SCRIPT, lit_html!("lit-html.js"))),
    ("/page/lit-html/directive.js", file(SCRIPT, lit_html!("directive.js"))),
    ("/page/lit-html/directive-helpers.js", file(SCRIPT, lit_html!("directive-helpers.js"))),
    ("/page/lit-html/directives/live.js", file(SCRIPT, lit_html!("directives/live.js"))),
    ("/page/lit-html/directives/repeat.js", file(SCRIPT, lit_html!("directives/repeat.js"))),
    ("/page/lit-html/LICENSE.txt", file(TEXT, lit_html!("LICENSE"))),
];

const fn file(content_type: &'static str, content: &'static str) -> StaticFile {
    StaticFile::new(content_type, content, Some(CONTENT_SECURITY_POLICY))
}
