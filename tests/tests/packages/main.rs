//! What is installed: the Debian package and its service, the image, the manual pages and the completions.

mod debian;
mod image;
mod machine;
mod manual;
mod nightly;
mod service;

use std::env;
use std::process::Command;

use plantd_tests::repository;

/// The cargo that runs the tests, in the root of the checkout.
fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // These variables would make dependencies that read them build again.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo.current_dir(repository("."));
    cargo
}
