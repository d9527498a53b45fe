//! `If-Match` and `If-None-Match`, in the order of RFC 9110, section 13.2.2.

use plantd_tests::{Answer, Client, TestServer, replacement_body};

use super::{JSON, assert_same, send};

/// The id of the plant to which all conditions apply.
const ID: i64 = 1;

const METHODS: [&str; 5] = ["GET", "HEAD", "PUT", "PATCH", "DELETE"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The request is carried out as without the condition.
    Done,
    /// 304 to GET and HEAD, 412 to other methods.
    Matched,
    /// 412.
    Failed,
}
use Outcome::{Done, Failed, Matched};

const CHANGED: &str = r#"{"name":"changed","tag":"changed"}"#;

/// Sends a request with these header lines. Only methods that take a body get it.
#[track_caller]
fn request(server: &TestServer, method: &str, id: i64, lines: &str, body: &str) -> Answer {
    let request_line = format!("{method} /plants/{id}");
    match method {
        "PUT" | "PATCH" => send(server, &request_line, &format!("{JSON}{lines}"), body),
        _ => send(server, &request_line, lines, ""),
    }
}

/// Changes the plant twice, and returns both revisions.
#[track_caller]
fn two_revisions(client: &Client) -> [u64; 2] {
    ["old", "new"].map(|name| client.put(ID, &replacement_body(name, None)).revision())
}

/// Asserts the outcome of each condition for each method. In a condition, NEW stands for the plant's revision and OLD for
/// an earlier one.
#[track_caller]
fn check(conditions: &[(&str, Outcome)]) {
    let server = TestServer::start();
    let client = server.client();
    for (condition, outcome) in conditions {
        for method in METHODS {
            let [old, new] = two_revisions(&client);
            let lines = condition.replace("NEW", &new.to_string()).replace("OLD", &old.to_string());
            let before = client.read(ID);
            let answer = request(&server, method, ID, &lines, CHANGED);
            let shown = format!("{method} {lines:?}: {answer:?}");
            let is_read = matches!(method, "GET" | "HEAD");
            let status = match outcome {
                Done if method == "DELETE" => 204,
                Done => 200,
                Matched if is_read => 304,
                Matched | Failed => 412,
            };
            assert_eq!(answer.status, status, "{shown}");
            if status == 412 && method != "HEAD" {
                answer.assert_error(412, 3003);
            }
            if is_read && status != 412 {
                assert_eq!(answer.revision(), new, "{shown}");
            }
            if status == 304 {
                assert_eq!(answer.body, b"", "{shown}");
            }
            let after = client.read(ID);
            match (outcome, method) {
                (Done, "DELETE") => drop(after.assert_error(404, 3002)),
                (Done, "PUT" | "PATCH") => after.assert_new_plant(ID, "changed", Some("changed")),
                _ => assert_same(&before, &after, &shown),
            }
        }
    }
}

/// Like [`check`], with these values of the header.
#[track_caller]
fn check_values(name: &str, outcome: Outcome, values: &[&[&str]]) {
    let lines = values.concat().into_iter().map(|value| format!("{name}: {value}\r\n"));
    let lines: Vec<String> = lines.collect();
    check(&lines.iter().map(|lines| (lines.as_str(), outcome)).collect::<Vec<_>>());
}

/// Lists that a recipient must accept but no sender should send (RFC 9110, section 5.6.1.2).
const EMPTY_LISTS: [&str; 4] = ["", "   ", ",", " ,\t, "];

#[test]
fn if_match_passes_only_the_strong_tag_of_the_current_revision() {
    let one = ["*", "\"NEW\"", "\"x\", \"NEW\"", "\"NEW\",\"x\"", "W/\"NEW\", \"NEW\""];
    let spaced = ["\"OLD\" \t , \t \"NEW\" ", ",, \"NEW\" , ,", "\"a\\\", \"NEW\""];
    let lines = ["\"x\"\r\nIf-Match: \"NEW\"", "\"NEW\"\r\nX: y\r\nif-match: \"x\""];
    let most = ["\"NEW\""; 100].join(",");
    check_values("If-Match", Done, &[&one, &spaced, &lines, &[&most]]);
    check(&[("if-match:\"NEW\"\r\n", Done)]);
    // A list without tags matches nothing (RFC 9110, section 13.1.1).
    check_values("If-Match", Failed, &[&EMPTY_LISTS]);

    let others = ["\"OLD\"", "\"x\"", "\"\"", "\"*\"", "\"0NEW\"", "\"+NEW\"", "\"NEW.0\""];
    let large = ["\"99999999999999999999999999\"", "\"x,NEW\""];
    let many = ["\"é\", \"!#$%&'()*+-./:;<=>?@[\\]^_`{|}~\"", "\"OLD\", \"x\"\r\nIf-Match: \"y\""];
    // A weak tag is for reading only (RFC 9110, section 13.1.1).
    let weak = ["W/\"NEW\"", "W/\"NEW\", \"OLD\""];
    check_values("If-Match", Failed, &[&others, &large, &many, &weak]);
}

#[test]
fn if_none_match_stops_any_tag_of_the_current_revision() {
    let one = ["*", "\"NEW\"", "W/\"NEW\"", ", \"NEW\",,\"OLD\"", "\"x,y\", \"NEW\""];
    let lines = ["\"x\"\r\nIf-None-Match: \"NEW\""];
    check_values("If-None-Match", Matched, &[&one, &lines]);
    check(&[("if-none-match: \"x\" , W/\"NEW\"\r\n", Matched)]);
    let others = ["\"OLD\"", "W/\"OLD\", \"x\"", "\"\"", "\"*\"", "\"0NEW\"", "\"x,NEW\"", "\"é\""];
    check_values("If-None-Match", Done, &[&others, &EMPTY_LISTS]);
}

#[test]
fn if_match_comes_before_if_none_match_and_a_condition_on_a_date_is_ignored() {
    check(&[
        ("If-Match: \"NEW\"\r\nIf-None-Match: \"NEW\"\r\n", Matched),
        ("If-None-Match: \"NEW\"\r\nIf-Match: \"NEW\"\r\n", Matched),
        ("If-Match: *\r\nIf-None-Match: *\r\n", Matched),
        ("If-Match: \"NEW\"\r\nIf-None-Match: \"OLD\"\r\n", Done),
        ("If-Match: \"OLD\"\r\nIf-None-Match: \"OLD\"\r\n", Failed),
        ("If-Match: \"OLD\"\r\nIf-None-Match: \"NEW\"\r\n", Failed),
        ("If-None-Match: *\r\nIf-Match: \"x\"\r\n", Failed),
        ("If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n", Done),
        ("If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", Done),
        ("If-None-Match: \"OLD\"\r\nIf-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n", Done),
        ("If-Match: \"NEW\"\r\nIf-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", Done),
    ]);
}

#[test]
fn a_condition_that_cannot_be_read_is_1007_and_nothing_changes() {
    let server = TestServer::start();
    let client = server.client();
    let [_, revision] = two_revisions(&client);
    let before = client.read(ID);
    let unquoted = ["NEW", "W/NEW", "'NEW'", "\"NEW", "NEW\"", "\"", "\"a", "W/"];
    let beside =
        ["\"NEW\"x", "x\"NEW\"", "\"NEW\" \"x\"", "\"NEW\"; \"x\"", "\"NEW\", x", "x, \"NEW\""];
    let broken = ["\"NEW\", \"x", "w/\"NEW\"", "W/ \"NEW\"", "W\"NEW\"", "\"a b\"", "\"a\tb\""];
    let stars = ["*, \"NEW\"", "\"NEW\", *", "* *", "*x", "W/*", "*, *"];
    let too_many = ["\"NEW\""; 101].join(",");
    let values = [&unquoted[..], &beside, &broken, &stars, &[&too_many]].concat();
    let mut all = Vec::new();
    for name in ["If-Match", "If-None-Match"] {
        for value in &values {
            let value = value.replace("NEW", &revision.to_string());
            all.push((name, format!("{name}: {value}\r\n")));
        }
        all.push((name, format!("{name}: *\r\n{name}: \"{revision}\"\r\n")));
        all.push((name, format!("{name}: \"{revision}\"\r\n{name}: x\r\n")));
    }
    // An invalid condition is refused even where the other one would decide.
    all.push(("If-None-Match", "If-Match: \"x\"\r\nIf-None-Match: x\r\n".to_owned()));
    for (name, lines) in all {
        for method in METHODS {
            let answer = request(&server, method, ID, &lines, CHANGED);
            assert_eq!(answer.status, 400, "{method} {lines:?}: {answer:?}");
            if method != "HEAD" {
                let message = answer.assert_error(400, 1007);
                assert!(message.contains(name), "{lines:?}: {message:?} does not name {name}");
            }
        }
        assert_same(&before, &client.read(ID), &lines);
    }
}

#[test]
fn a_put_creates_a_plant_only_where_its_condition_allows_and_other_methods_answer_404() {
    let server = TestServer::start();
    let client = server.client();
    for (lines, is_made) in [
        ("If-Match: *\r\n", false),
        ("If-Match: \"1\"\r\n", false),
        ("If-Match: W/\"1\"\r\n", false),
        ("If-Match: *\r\nIf-None-Match: *\r\n", false),
        ("If-Match: \"1\"\r\nIf-None-Match: *\r\n", false),
        ("If-None-Match: *\r\n", true),
        ("If-None-Match: \"1\"\r\n", true),
        ("If-None-Match: W/\"x\"\r\n", true),
    ] {
        for method in ["GET", "HEAD", "PATCH", "DELETE"] {
            let answer = request(&server, method, ID, lines, CHANGED);
            assert_eq!(answer.status, 404, "{method} {lines:?}: {answer:?}");
            if method != "HEAD" {
                answer.assert_error(404, 3002);
            }
        }
        let put = |lines| request(&server, "PUT", ID, lines, CHANGED);
        if is_made {
            put(lines).assert_made("changed", Some("changed"));
            let made = client.read(ID);
            put("If-None-Match: *\r\n").assert_error(412, 3003);
            assert_same(&made, &client.read(ID), lines);
            client.delete(ID).assert_no_content();
        } else {
            put(lines).assert_error(412, 3003);
            client.read(ID).assert_error(404, 3002);
        }
    }
}

#[test]
fn a_wrong_body_is_refused_regardless_of_conditions() {
    let server = TestServer::start();
    let client = server.client();
    let [_, revision] = two_revisions(&client);
    let current = format!("If-Match: \"{revision}\"\r\n");
    let before = client.read(ID);
    for lines in ["If-Match: \"x\"\r\n", "If-None-Match: *\r\n", "If-Match: *\r\n", &current] {
        for (body, number) in [("{", 1001), (r#"{"name":null}"#, 1004), (r#"{"name":""}"#, 1005)] {
            for method in ["PUT", "PATCH"] {
                request(&server, method, ID, lines, body).assert_error(400, number);
            }
        }
    }
    assert_same(&before, &client.read(ID), "a wrong body");
}
