//! The operations on plants: their answers, their refusals, and the resulting state of the store.

mod agreement;
mod bodies;
mod export;
mod idempotency;
mod import;
mod list;
mod paths;
mod preconditions;
mod writes;

use plantd_tests::{Answer, Client, Counts, Format, NewPlant, TestServer, raw_request};

/// The largest JSON body and the longest row of an import, in bytes.
const BODY_MAX_BYTES: usize = 65_536;

/// The longest name and tag, in characters.
const TEXT_MAX_CHARACTERS: usize = 255;

const JSON: &str = "Content-Type: application/json\r\n";
const MERGE_PATCH: &str = "Content-Type: application/merge-patch+json\r\n";

/// Sends a request with the token and these header lines on its own connection: a refusal may close the
/// connection.
#[track_caller]
fn send(server: &TestServer, request_line: &str, lines: &str, body: impl AsRef<[u8]>) -> Answer {
    let mut connection = server.connect();
    connection.send(raw_request(request_line, lines, body));
    connection.receive()
}

/// Imports plants into a server that has none of them.
#[track_caller]
fn plant_all(client: &Client, plants: &[NewPlant]) {
    let answer = client.import(Format::Ndjson, "", Format::Ndjson.body(plants));
    answer.assert_report(Counts { created: plants.len() as u64, ..Counts::default() });
}

/// All plants of the store.
#[track_caller]
fn listed(client: &Client) -> Vec<NewPlant> {
    client.list_all("limit=1000")
}

/// Asserts that two reads show the same plant with the same revision.
#[track_caller]
fn assert_same(before: &Answer, after: &Answer, case: &str) {
    let shown =
        |read: &Answer| (read.status, read.body.clone(), read.header("etag").map(str::to_owned));
    assert_eq!(shown(after), shown(before), "{case} changed something");
}

/// A valid JSON body of exactly this many bytes.
fn body_of(id: i64, bytes: usize) -> String {
    let shortest = format!(r#"{{"id":{id},"name":"Rosa","note":""}}"#).len();
    format!(r#"{{"id":{id},"name":"Rosa","note":"{}"}}"#, "x".repeat(bytes - shortest))
}
