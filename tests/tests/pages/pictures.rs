//! The picture of the page at `/` that the README shows. Pixels differ between machines, so the digest of the page's
//! sources tells whether the picture is of today's page.

use std::path::Path;
use std::{env, fs};

use plantd_tests::{TestServer, files_below, repository};
use sha2::{Digest as _, Sha256};

use crate::browser::{self, WRITE_PICTURES};

const PICTURE: &str = "docs/plants.png";

/// Holds the digest of the page in the picture.
const DIGEST: &str = "docs/plants.png.page-sha256";

fn digest_of_page() -> String {
    let mut digest = Sha256::new();
    for file in files_below(&repository("crates/plant-http/web/app")) {
        digest.update(fs::read(file).expect("the file can be read"));
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_picture_in_the_readme_is_of_the_page_as_it_is() {
    if env::var_os(WRITE_PICTURES).is_some() {
        browser::run("pictures.js", &mut TestServer::start());
        let taken = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plants.png");
        fs::copy(taken, repository(PICTURE)).expect("the picture is copied");
        fs::write(repository(DIGEST), digest_of_page() + "\n").expect("the digest is written");
    }
    let digest = fs::read_to_string(repository(DIGEST)).unwrap_or_default();
    assert!(
        digest.trim_end() == digest_of_page(),
        "{PICTURE} is of another page: set {WRITE_PICTURES} in the environment, run this test again, and look at the picture"
    );
}
