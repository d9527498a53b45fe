//! `/`: the page for people. Its scripts use the interface of the service, as any other client does.

use crate::pages::static_file::{IMAGE, PAGE, SCRIPT, STYLE, StaticFile, TEXT};

/// Allows scripts, styles, images and requests of this server only. Forbids inline code, `eval`, and frames around the
/// page. Trusted Types let only lit-html make HTML, from the templates in the scripts.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types lit-html";

/// A file in `web/app`, with its path on the server.
macro_rules! file {
    ($content_type:expr, $name:literal) => {
        file!($content_type, $name, concat!("/app/", $name))
    };
    ($content_type:expr, $name:literal, $path:expr) => {{
        let content = include_str!(concat!("../../web/app/", $name));
        ($path, StaticFile::new($content_type, content, Some(CONTENT_SECURITY_POLICY)))
    }};
}

pub(super) static FILES: [(&str, StaticFile); 51] = [
    file!(PAGE, "index.html", "/"),
    file!(STYLE, "base.css"),
    file!(STYLE, "list.css"),
    file!(STYLE, "table.css"),
    file!(STYLE, "dialogs.css"),
    file!(STYLE, "import_export.css"),
    file!(IMAGE, "icon.svg"),
    file!(SCRIPT, "main.js"),
    file!(SCRIPT, "app.js"),
    file!(SCRIPT, "session.js"),
    file!(SCRIPT, "address.js"),
    file!(SCRIPT, "layout.js"),
    file!(SCRIPT, "toolbar.js"),
    file!(SCRIPT, "pager.js"),
    file!(SCRIPT, "plant_table.js"),
    file!(SCRIPT, "active_row.js"),
    file!(SCRIPT, "toasts.js"),
    file!(SCRIPT, "keys.js"),
    file!(SCRIPT, "screen.js"),
    file!(SCRIPT, "sign_in.js"),
    file!(SCRIPT, "dialog.js"),
    file!(SCRIPT, "field.js"),
    file!(SCRIPT, "plant_dialog.js"),
    file!(SCRIPT, "mistakes.js"),
    file!(SCRIPT, "history_dialog.js"),
    file!(SCRIPT, "conflict.js"),
    file!(SCRIPT, "word_diff.js"),
    file!(SCRIPT, "tag_dialog.js"),
    file!(SCRIPT, "import_dialog.js"),
    file!(SCRIPT, "import_preview.js"),
    file!(SCRIPT, "import_report.js"),
    file!(SCRIPT, "export_dialog.js"),
    file!(SCRIPT, "keys_dialog.js"),
    file!(SCRIPT, "webhooks_dialog.js"),
    file!(SCRIPT, "plant_list.js"),
    file!(SCRIPT, "rank.js"),
    file!(SCRIPT, "keyset.js"),
    file!(SCRIPT, "plant.js"),
    file!(SCRIPT, "changes.js"),
    file!(SCRIPT, "follow.js"),
    file!(SCRIPT, "server.js"),
    file!(SCRIPT, "export.js"),
    file!(SCRIPT, "files.js"),
    file!(SCRIPT, "csv.js"),
    file!(SCRIPT, "json_rows.js"),
    file!(SCRIPT, "format.js"),
    // Renders the templates of the other scripts.
    file!(SCRIPT, "lit-html/lit-html.js"),
    file!(SCRIPT, "lit-html/directive.js"),
    file!(SCRIPT, "lit-html/directive-helpers.js"),
    file!(SCRIPT, "lit-html/directives/repeat.js"),
    file!(TEXT, "lit-html/LICENSE", "/app/lit-html/LICENSE.txt"),
];
