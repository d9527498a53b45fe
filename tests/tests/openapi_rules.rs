//! `docs/openapi.json` keeps the rules that others have for such documents.

use std::path::Path;

use plantd_tests::Toolbox;

#[test]
fn spectral_has_nothing_to_say_of_the_document() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Toolbox::node()
        .command("spectral")
        .args(["lint", "--fail-severity", "hint", "--ruleset"])
        .args([folder.join("tools/node/spectral.yaml"), folder.join("../docs/openapi.json")])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
