//! Where the plants are of the servers that tests start: in a folder, or in PostgreSQL.

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::process;

use sha2::{Digest as _, Sha256};

/// The variable in the environment that says where plants are if a test does not: `sled`, which is what
/// is not said, or `postgres`.
const STORE: &str = "PLANTD_TESTS_STORE";

/// Whether servers have their plants in PostgreSQL if a test does not say otherwise.
///
/// # Panics
///
/// When the environment names another store.
pub(crate) fn is_postgres() -> bool {
    match env::var(STORE).as_deref() {
        Err(_) | Ok("" | "sled") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("{STORE} is {other:?}, which is neither `sled` nor `postgres`"),
    }
}

/// Whether servers have their plants in their folder. A test that has nothing to claim of others asks,
/// and `why` then stands in its output where it claims nothing.
///
/// # Panics
///
/// When the environment names a store that is not known.
#[must_use]
#[allow(clippy::print_stdout, reason = "a test that claims nothing says why")]
pub fn store_is_sled(why: &str) -> bool {
    let is_sled = !is_postgres();
    if !is_sled {
        println!("claims nothing of PostgreSQL: {why}");
    }
    is_sled
}

/// The schema that belongs to a folder: whoever starts a server there again finds the same plants, and
/// nobody else does.
pub(crate) fn schema_of(folder: &Path) -> String {
    let hash = Sha256::new()
        // Another run may have a temporary folder of the same name.
        .chain_update(process::id().to_be_bytes())
        .chain_update(folder.as_os_str().as_encoded_bytes())
        .finalize();
    hash[..8].iter().fold("test_".to_owned(), |mut name, byte| {
        write!(name, "{byte:02x}").expect("a String takes all that is written");
        name
    })
}
