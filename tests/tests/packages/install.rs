//! `cargo install`. `cargo xtask release --check` does the same in the release profile, which takes minutes.

use std::process::Command;

use plantd_tests::run_tool;

use crate::cargo;

#[test]
fn cargo_installs_the_program_from_its_folder() {
    let root = tempfile::tempdir().expect("a temporary folder can be made");
    let mut install = cargo();
    // Most crates are built already in the debug profile.
    install.args(["install", "--path", "crates/plantd", "--locked", "--debug"]);
    run_tool(install.args(["--target-dir", "target", "--root"]).arg(root.path()));
    let version = Command::new(root.path().join("bin/plantd")).arg("--version").output();
    let printed =
        String::from_utf8(version.expect("the program can be started").stdout).expect("text");
    assert_eq!(printed, concat!("plantd ", env!("CARGO_PKG_VERSION"), "\n"));
}
