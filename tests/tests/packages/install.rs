//! `cargo install`. A release does the same in the release profile, which takes minutes (`cargo xtask release --check`).

use std::process::Command;

use plantd_tests::run_tool;

use crate::cargo;

#[test]
fn cargo_installs_the_program_from_its_folder() {
    let root = tempfile::tempdir().expect("a temporary folder can be made");
    let mut install = cargo();
    // The debug profile finds most crates built already.
    install.args(["install", "--path", "crates/plantd", "--locked", "--debug"]);
    run_tool(install.args(["--target-dir", "target", "--root"]).arg(root.path()));
    let version = Command::new(root.path().join("bin/plantd")).arg("--version").output();
    let printed = String::from_utf8(version.expect("it runs").stdout).expect("text");
    assert_eq!(printed, concat!("plantd ", env!("CARGO_PKG_VERSION"), "\n"));
}
