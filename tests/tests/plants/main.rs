//! The operations on plants: their answers, their refusals, and the resulting state of the store.

mod batch;
mod batch_limits;
mod bodies;
mod export;
mod history;
mod idempotency;
mod import;
mod list;
mod pages;
mod paths;
mod preconditions;
mod tags;
mod unread_answers;
mod writes;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use plantd_tests::{Answer, Client, Counts, Format, NewPlant, TestServer, raw_request};

/// The largest JSON body and the longest row of an import, in bytes.
const BODY_MAX_BYTES: usize = 65_536;

const TEXT_MAX_CHARACTERS: usize = 255;

const JSON: &str = "Content-Type: application/json\r\n";
const MERGE_PATCH: &str = "Content-Type: application/merge-patch+json\r\n";

/// Texts with characters that mean something in a URL, a header or JSON, and texts beyond ASCII.
fn nasty_texts() -> Vec<&'static str> {
    let of_a_url = ["a b", "a&tag=b", "a+b", "100%", "%41%zz", "#fragment", "a?b/c\\d", "a=b;c,d"];
    let quotes = ["\"quoted\"", "'single'", ">; rel=\"next\", <", "[a]{b}|^`~", " edges "];
    let letters = ["é ẞ İ", "植物 🌱", "\u{2028}\u{feff}x"];
    [&of_a_url[..], &quotes, &letters].concat()
}

/// Percent-encodes the value of a query parameter.
fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The parameters of a link, decoded and sorted. Asserts that the link has no `+`, which some decoders read as a
/// space.
#[track_caller]
fn parameters(link: &str) -> Vec<(String, String)> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%=&!$'()*,;:@/?".contains(&byte);
    let (_, query) = link.split_once('?').expect("a link with a query");
    assert!(query.bytes().all(plain), "{link} is not encoded");
    let decode =
        |text| percent_decode_str(text).decode_utf8().expect("a parameter is UTF-8").into_owned();
    let mut parameters: Vec<_> = query
        .split('&')
        .map(|parameter| parameter.split_once('=').expect("a parameter has a value"))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    parameters.sort();
    parameters
}

/// Sends a request with the token and these header lines on a new connection, since a refusal may close it.
#[track_caller]
fn send(server: &TestServer, request_line: &str, lines: &str, body: impl AsRef<[u8]>) -> Answer {
    server.answer_to(raw_request(request_line, lines, body))
}

/// Imports plants into a server that has none of them.
#[track_caller]
fn plant_all(client: &Client, plants: &[NewPlant]) {
    let answer = client.import(Format::Ndjson, "", Format::Ndjson.body(plants));
    answer.assert_report(Counts { created: plants.len() as u64, ..Counts::default() });
}

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
