//! `docs/openapi.json` keeps the rules that others have for such documents.

use plantd_tests::{Toolbox, repository, run_tool};

#[test]
fn spectral_has_nothing_to_say_of_the_document() {
    let mut lint = Toolbox::node().command("spectral");
    lint.args(["lint", "--fail-severity", "hint"]);
    lint.arg("--ruleset").arg(repository("tests/tools/node/spectral.yaml"));
    run_tool(lint.arg(repository("docs/openapi.json")));
}
