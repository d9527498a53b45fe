//! A tokens file as someone would write it by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Makes the folder of a server that is to start, with a tokens file in it. The tokens are
/// `reader`, which may read, `writer`, which may write, and `expired`, which might have written.
///
/// # Panics
///
/// When it cannot be written.
pub fn write_tokens_file(data: &Path) {
    fs::create_dir(data).expect("a folder can be made");
    let path = data.join("tokens.json");
    let records = [
        record("reader", "read", "null"),
        record("writer", "write", "\"9999-12-30T00:00:00Z\""),
        record("expired", "write", "\"2020-01-02T00:00:00Z\""),
    ];
    fs::write(&path, format!(r#"{{"tokens":[{}]}}"#, records.join(","))).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

fn record(token: &str, scope: &str, expires: &str) -> String {
    let digest: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        r#"{{"name":"{token}","scope":"{scope}","created":"2020-01-01T00:00:00Z",
            "expires":{expires},"sha256":"{digest}"}}"#
    )
}
