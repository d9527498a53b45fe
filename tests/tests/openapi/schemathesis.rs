//! Requests that Schemathesis generates from the document, valid and invalid: each answer must be one that the document
//! describes.
//!
//! `SCHEMATHESIS_SEEDS=1,2,3` runs it with these seeds, one after the other.

use std::collections::BTreeMap;
use std::env;

use plantd_tests::{
    OpenapiDocument, TOKEN, TestServer, Toolbox, pattern_of, repository, run_tool, store_is_on_disk,
};

/// How many generated requests each operation gets at least. They are the same in each run with the same seed, so more of
/// them are worth less than another seed.
const EXAMPLES: usize = 40;

const DEFAULT_SEEDS: &str = "1";

/// Runs Schemathesis against the server, with all of its checks.
#[track_caller]
fn run(server: &TestServer, seed: &str, arguments: &[&str]) {
    let mut schemathesis = Toolbox::python().command("schemathesis");
    schemathesis
        .arg("run")
        .arg(repository("docs/openapi.json"))
        .args(["--url", &format!("http://{}", server.address())])
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .args(["--seed", seed, "--max-examples", &EXAMPLES.to_string(), "--no-color"])
        .args(arguments)
        .env("SCHEMATHESIS_HOOKS", repository("tests/schemathesis/hooks.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // Schemathesis leaves files in its current folder.
        .current_dir(server.data().parent().expect("a folder"));
    run_tool(&mut schemathesis);
}

/// The statuses of the answers to each method and path, from the server's log. The id of a plant is `{id}`.
fn answers(server: &TestServer) -> BTreeMap<(String, String), Vec<u16>> {
    let mut answers: BTreeMap<(String, String), Vec<u16>> = BTreeMap::new();
    for line in server.stderr().lines() {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("127.0.0.1:"));
        let (Some(_), Some(method), Some(path), Some(status)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let path = pattern_of(path);
        if let Ok(status) = status.parse() {
            answers.entry((method.to_owned(), path.to_owned())).or_default().push(status);
        }
    }
    answers
}

#[test]
fn the_server_answers_generated_requests_as_the_document_says() {
    let seeds = env::var("SCHEMATHESIS_SEEDS");
    let document = OpenapiDocument::copy();
    let has_backups = store_is_on_disk("PostgreSQL has its own backups");
    for seed in seeds.as_deref().unwrap_or(DEFAULT_SEEDS).split(',') {
        let mut server = TestServer::start();
        run(&server, seed, &[]);
        // In the run above, few plants are left for DELETE.
        run(&server, seed, &["--include-operation-id", "deletePlant", "--phases", "fuzzing"]);

        // Without successes, the runs would show nothing.
        assert_eq!(server.terminate().code(), Some(0));
        let answers = answers(&server);
        for (method, path, _) in document.operations() {
            let statuses =
                answers.get(&(method.clone(), path.to_owned())).map_or(&[][..], Vec::as_slice);
            let count = statuses.len();
            assert!(count >= EXAMPLES, "seed {seed}: {method} {path} had {count} requests");
            let is_done = statuses.iter().any(|status| (200..300).contains(status))
                || (path == "/backup" && !has_backups);
            assert!(is_done, "seed {seed}: {method} {path} was never done");
        }
    }
}
