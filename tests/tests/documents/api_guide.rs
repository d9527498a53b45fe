//! The commands, the errors and the limits in `docs/api.md` match the product.

use std::collections::BTreeSet;

use plant_http::internal::{ErrorInfo, RouteInfo, errors, routes};
use plant_http::limits::{
    BATCH_BODY_DEADLINE, BATCH_BODY_MAX_BYTES, BODY_DEADLINE, BODY_IDLE_DEADLINE, BODY_MAX_BYTES,
    CHUNK_OVERHEAD_MAX_BYTES, ENTITY_TAGS_MAX, EVENTS_WAIT_MAX, HEAD_LINE_MAX_BYTES,
    HEAD_MAX_BYTES, IDEMPOTENCY_KEY_MAX_CHARACTERS, IDS_MAX, PAGE_DEFAULT_CHANGES,
    PAGE_DEFAULT_EVENTS, PAGE_DEFAULT_PLANTS, PAGE_DEFAULT_TAGS, PAGE_MAX_CHANGES, PAGE_MAX_EVENTS,
    PAGE_MAX_PLANTS, PAGE_MAX_TAGS, REPORT_MAX_ERRORS, ROW_MAX_BYTES,
};
use plant_store::{BATCH_MAX_WRITES, PAGE_MAX_WORK};
use plantd_tests::{Document, Launch, Shell, TestServer, Transcript, pattern_of};

use crate::written::assert_written;

/// The most header lines of a request: `smuggling` asserts it.
const HEAD_MAX_LINES: usize = 96;

/// The most characters that a name or a tag may have, and a request id: `plants` and `request_log` assert
/// them.
const TEXT_MAX_CHARACTERS: usize = 255;
const REQUEST_ID_MAX_CHARACTERS: usize = 128;

fn guide() -> Document {
    Document::read("docs/api.md")
}

#[test]
fn each_command_of_the_guide_answers_what_is_shown_behind_it() {
    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_prepared(launch, "plantd-data", |_| {});
    let folder = server.data().parent().expect("a folder");
    Transcript::of(&guide()).run(&Shell::new(folder, server.address()));
}

/// The method and the path that a `curl` command sends.
fn target(curl: &str) -> (String, String) {
    let words: Vec<&str> = curl.split_whitespace().collect();
    let said = words.iter().position(|word| *word == "-X").map(|at| words[at + 1]);
    let has_body =
        !words.contains(&"-G") && words.iter().any(|word| ["-d", "--data-binary"].contains(word));
    let method = said.unwrap_or(match (words.contains(&"-I"), has_body) {
        (true, _) => "HEAD",
        (false, true) => "POST",
        (false, false) => "GET",
    });
    let url = words.iter().find_map(|word| word.trim_matches(['\'', '"']).strip_prefix("http://"));
    let (_, path) = url.and_then(|url| url.split_once('/')).expect("a URL with a path");
    let path = path.split('?').next().expect("there is a first part");
    (method.to_owned(), format!("/{path}"))
}

#[test]
fn every_operation_of_the_store_is_shown() {
    let guide = guide();
    let transcript = Transcript::of(&guide);
    let curls = transcript.commands().filter(|command| command.contains("curl "));
    let shown: BTreeSet<(String, String)> = curls.map(target).collect();
    let is_operation = |route: &RouteInfo| route.needs_token;
    for route in routes().into_iter().filter(is_operation) {
        let is_shown = shown
            .iter()
            .any(|(method, path)| *method == route.method && pattern_of(path) == route.path);
        assert!(is_shown, "{} {} is shown nowhere", route.method, route.path);
    }
}

fn rows_of_errors() -> Vec<Vec<String>> {
    let row = |ErrorInfo { number, status, meaning, advice }: ErrorInfo| {
        vec![number.to_string(), status.to_string(), meaning.to_owned(), advice.to_owned()]
    };
    errors().into_iter().map(row).collect()
}

/// A number in the guide's format.
fn written(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits"))
        .collect();
    groups.join(",")
}

fn rows_of_limits() -> Vec<Vec<String>> {
    let up_to = |most: usize, what: &str| format!("1 to {}{what}", written(most));
    let bytes = |bytes: usize| format!("{} bytes", written(bytes));
    let within = |deadline: std::time::Duration| format!("within {} s", deadline.as_secs());
    let limits = [
        ("a body, but for an import and a batch", bytes(BODY_MAX_BYTES)),
        ("a batch", bytes(BATCH_BODY_MAX_BYTES)),
        ("requests of a batch", up_to(BATCH_MAX_WRITES, "")),
        ("the `body` of a request of a batch", bytes(BODY_MAX_BYTES)),
        ("a row of an import, without its line end", bytes(ROW_MAX_BYTES)),
        ("failed rows that the report of an import lists", written(REPORT_MAX_ERRORS)),
        ("plants in a page (`limit`)", up_to(PAGE_MAX_PLANTS, "")),
        ("plants in a page unless `limit` is said", written(PAGE_DEFAULT_PLANTS)),
        ("ids in `ids`", up_to(IDS_MAX, "")),
        ("changes in a page of a history (`limit`)", up_to(PAGE_MAX_CHANGES, "")),
        ("changes in a page unless `limit` is said", written(PAGE_DEFAULT_CHANGES)),
        ("work of the server for one page, in plants that it examines", written(PAGE_MAX_WORK)),
        (
            "a name, a tag, a `name`, `tag` or `prefix` to look for",
            up_to(TEXT_MAX_CHARACTERS, " characters"),
        ),
        ("tags in a page (`limit`)", up_to(PAGE_MAX_TAGS, "")),
        ("tags in a page unless `limit` is said", written(PAGE_DEFAULT_TAGS)),
        ("events in a page (`limit`)", up_to(PAGE_MAX_EVENTS, "")),
        ("events in a page unless `limit` is said", written(PAGE_DEFAULT_EVENTS)),
        ("`wait` for an event", format!("0 to {} s", EVENTS_WAIT_MAX.as_secs())),
        ("`Idempotency-Key`", up_to(IDEMPOTENCY_KEY_MAX_CHARACTERS, " characters")),
        ("entity tags in `If-Match` or `If-None-Match`", format!("0 to {ENTITY_TAGS_MAX}")),
        ("`X-Request-Id`", up_to(REQUEST_ID_MAX_CHARACTERS, " characters")),
        (
            "the head of a request: the request line and the header lines, with their line ends",
            bytes(HEAD_MAX_BYTES),
        ),
        ("a line of it, with its line end", bytes(HEAD_LINE_MAX_BYTES)),
        ("header lines of a request", written(HEAD_MAX_LINES)),
        (
            "the line with the size of a chunk; all trailers together",
            bytes(CHUNK_OVERHEAD_MAX_BYTES),
        ),
        ("all of a body, but for an import and a batch", within(BODY_DEADLINE)),
        ("all of a batch", within(BATCH_BODY_DEADLINE)),
        ("the next part of an import or a batch", within(BODY_IDLE_DEADLINE)),
    ];
    limits.into_iter().map(|(what, limit)| vec![what.to_owned(), limit]).collect()
}

#[test]
fn the_guide_has_the_errors_and_limits_that_the_program_writes() {
    assert_written("docs/api.md", &["Errors", "Limits"], |part| {
        part.with_table(match part.heading() {
            "Errors" => rows_of_errors(),
            _ => rows_of_limits(),
        })
    });
}
