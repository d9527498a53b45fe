//! `plantd events`. `follow` has what `--follow` does.

use std::net::SocketAddr;

use plantd_tests::{Client, FINDINGS, IO, Launch, NewPlant, Script, TestServer, USAGE, answer_of};
use serde_json::value::RawValue;

use crate::JSON;

/// `plantd events` for the server at this address.
pub(crate) fn events(address: SocketAddr, arguments: &[&str]) -> Launch {
    Launch::for_server(address, &["events"]).arguments(arguments)
}

/// An event of a scripted server.
pub(crate) fn event(number: u32) -> String {
    format!("{{\"cursor\":\"{number}-ab\",\"kind\":\"created\",\"id\":{number}}}")
}

/// An answer with a page of these events, whose link has the cursor `next`.
pub(crate) fn page(events: &[u32], next: &str) -> String {
    let body: Vec<String> = events.iter().map(|number| event(*number)).collect();
    let link = format!("{JSON}\r\nLink: </prefix/events?after={next}&limit=1000>; rel=\"next\"");
    answer_of("200 OK", &link, &format!("[{}]", body.join(",")))
}

/// The answer of a server that is too busy, with more headers.
pub(crate) fn unavailable(more_headers: &str) -> String {
    let body = r#"{"error":5003,"message":"too busy"}"#;
    answer_of("503 Service Unavailable", &format!("{JSON}{more_headers}"), body)
}

pub(crate) fn create(client: &Client, id: i64) {
    client.create(id, "Rosa", None).assert_plant("Rosa", None);
}

/// A page of the server as the command must print it.
#[track_caller]
pub(crate) fn lines_of_page(client: &Client, query: &str) -> String {
    let page = client.get(&format!("/events?limit=1000{query}"));
    assert_eq!(page.status, 200, "{page:?}");
    let events: Vec<&RawValue> = serde_json::from_slice(&page.body).expect("an array");
    events.iter().map(|event| event.get().to_owned() + "\n").collect()
}

#[track_caller]
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split(after).next().expect("a part")
}

pub(crate) fn first_cursor(lines: &str) -> &str {
    between(lines, "{\"cursor\":\"", "\"")
}

#[test]
fn each_event_is_printed_on_its_line_as_the_server_sends_it() {
    let server = TestServer::start();
    let client = server.client();
    create(&client, 1);
    client.create(2, "},{\"cursor\\", Some("木")).assert_plant("},{\"cursor\\", Some("木"));
    client.patch(1, r#"{"tag":"Rosaceae"}"#).assert_plant("Rosa", Some("Rosaceae"));
    client.delete(1).assert_no_content();

    let all = events(server.address(), &[]).printed();
    assert_eq!(all, lines_of_page(&client, ""));
    let kinds: Vec<&str> = all.lines().map(|line| between(line, "\"kind\":\"", "\"")).collect();
    assert_eq!(kinds, ["created", "created", "updated", "deleted"]);
    let with_plants = events(server.address(), &["--plants"]).printed();
    assert_eq!(with_plants, lines_of_page(&client, "&plants=true"));
    assert_eq!(with_plants.matches("\"tag\":\"木\"").count(), 1, "{with_plants}");

    let cursor = first_cursor(&all);
    let rest = events(server.address(), &["--after", cursor]).printed();
    assert_eq!(rest.lines().collect::<Vec<_>>(), all.lines().skip(1).collect::<Vec<_>>());
    assert_eq!(events(server.address(), &["--after", "now"]).printed(), "");
}

#[test]
fn more_events_than_a_page_holds_are_all_printed_in_order() {
    const PLANTS: i64 = 2_345;
    let server = TestServer::start();
    assert_eq!(events(server.address(), &[]).printed(), "", "nothing has happened yet");
    let plants: Vec<_> = (1..=PLANTS).map(|id| NewPlant::new(id, "Rosa", None)).collect();
    server.client().import_all(&plants);
    for arguments in [&[] as &[&str], &["--plants"]] {
        let lines = events(server.address(), arguments).printed();
        let ids: Vec<i64> = lines
            .lines()
            .map(|line| between(line, "\"id\":", ",").parse().expect("a number"))
            .collect();
        assert_eq!(ids, (1..=PLANTS).collect::<Vec<_>>());
    }
}

#[test]
fn without_follow_a_failure_ends_the_command_at_once() {
    let script = Script::start(vec![page(&[1], "1-ab"), unavailable("\r\nRetry-After: 1")]);
    let process = events(script.address, &[]).run(IO);
    assert_eq!(process.stdout(), event(1) + "\n");
    assert!(process.stderr().contains("too busy"), "{}", process.stderr());
    assert_eq!(script.targets(), ["/events?limit=1000", "/events?limit=1000&after=1-ab"]);
}

#[test]
fn forgotten_events_end_the_command_with_1_and_advice() {
    let server = TestServer::start();
    create(&server.client(), 1);
    let words = ["events after the cursor are gone", "export", "X-Events-After", "3004"];
    for arguments in [&["--after", "1-ab"][..], &["--follow", "--after", "1-ab"]] {
        events(server.address(), arguments).assert_refused(FINDINGS, &words);
    }
    let gone = answer_of("410 Gone", JSON, r#"{"error":3004,"message":"gone"}"#);
    let script = Script::start(vec![page(&[1], "1-ab"), gone]);
    let launch = events(script.address, &["--follow"]);
    assert_eq!(launch.run(FINDINGS).stdout(), event(1) + "\n");
}

#[test]
fn an_invalid_cursor_is_refused_before_any_request() {
    let script = Script::start(Vec::new());
    for cursor in ["", "1", "-1", "Now", "1-", "1-xyz", "01-ab", "1-ab&limit=1"] {
        let after = format!("--after={cursor}");
        let launch = events(script.address, &["--follow", &after]);
        launch.assert_refused(USAGE, &["--after", "now", "2048-9f3a1c"]);
    }
    assert_eq!(script.targets(), [""; 0]);
}

#[test]
fn an_answer_that_is_not_from_plantd_ends_the_command() {
    let link = |target: &str| format!("{JSON}\r\nLink: <{target}>; rel=\"next\"");
    for (content_type, body) in [
        ("text/html", "<p>Plants</p>"),
        (JSON, "{}"),
        (JSON, "[1]"),
        (JSON, r#"[{"cursor":"x"}]"#),
        (JSON, "[]"),
        (&link("/events"), "[]"),
        (&link("/events?after=now"), "[]"),
    ] {
        let script = Script::start(vec![answer_of("200 OK", content_type, body)]);
        events(script.address, &["--follow"]).assert_refused(IO, &["does not answer as plantd"]);
    }
}
