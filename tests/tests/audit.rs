//! The audit lines of the log: which token changed which plant in which request, and the outcome.

use std::time::Duration;

use plantd_tests::{
    Format, Launch, TestServer, batch_body, chunk, create_token, plant_body, raw_head, raw_request,
    replacement_body, store_is_on_disk, wait_until,
};

const AUDIT: &str = "plantd::audit]";
const IMPORT: &str = "plantd::audit::import]";
const BATCH: &str = "plantd::audit::batch]";
const ACCESS: &str = "plantd::access]";

/// The thread on which groups are synced.
const COMMIT_THREAD: &str = "plant-commit";

/// The lines of the log with this word, each as its words after the time, the level and the target.
fn lines_of(log: &str, word: &str) -> Vec<Vec<String>> {
    log.lines()
        .filter_map(|line| line.split_once("] "))
        .map(|(_, line)| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter(|words| words.iter().any(|found| found == word))
        .collect()
}

/// How many lines have this target.
fn count(log: &str, from: &str) -> usize {
    log.lines().filter(|line| line.contains(from)).count()
}

fn server() -> TestServer {
    TestServer::start_with(Launch::new().without_environment("PLANTD_TOKEN"))
}

#[test]
fn each_change_has_a_line_with_token_request_plant_and_outcome() {
    let mut server = server();
    let names = [["--name", "gardener"], ["--name", "other"]];
    let [gardener, other] = names.map(|name| {
        let token = create_token(server.data(), &name);
        let client = server.client().with_token(&token);
        wait_until("the token to be in force", || client.get("/plants").status == 200);
        client
    });
    let before = server.stderr();
    assert_eq!(count(&before, AUDIT), 0, "{before}");

    let rosa = plant_body(17, "Rosa", None);
    let json = ("content-type", "application/json");
    let new = replacement_body("Salix", None);
    // The token, the request, and the outcome.
    let cases = [
        (&gardener, "gardener", "POST", "/plants", rosa.as_str(), 200, None, Some(17)),
        (&other, "other", "POST", "/plants", &rosa, 400, Some(3001), Some(17)),
        (&other, "other", "POST", "/plants", "{", 400, Some(1001), None),
        (&other, "other", "PUT", "/plants/18", &new, 201, None, Some(18)),
        (&gardener, "gardener", "PUT", "/plants/18", &new, 200, None, Some(18)),
        (&gardener, "gardener", "PATCH", "/plants/17", r#"{"tag":"x"}"#, 200, None, Some(17)),
        (&gardener, "gardener", "PATCH", "/plants/-5", "{}", 404, Some(3002), Some(-5)),
        (&other, "other", "DELETE", "/plants/17", "", 204, None, Some(17)),
        (&other, "other", "DELETE", "/plants/17", "", 404, Some(3002), Some(17)),
    ];
    for (number, (client, _, method, path, body, status, ..)) in cases.iter().enumerate() {
        let id = format!("case-{number}");
        let answer = client.send(method, path, &[json, ("x-request-id", &id)], body);
        assert_eq!(answer.status, *status, "{method} {path}: {answer:?}");
    }
    assert_eq!(server.terminate().code(), Some(0));

    let log = server.stderr();
    assert_eq!(count(&log, AUDIT), cases.len(), "{log}");
    for (number, (_, token, method, path, _, status, error, plant)) in cases.iter().enumerate() {
        let lines = lines_of(&log, &format!("id=case-{number}"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        let words = &lines[0];
        let (status, token) = (status.to_string(), format!("token={token}"));
        for word in [method, path, status.as_str(), &token] {
            assert!(words.iter().any(|found| found == word), "{word} is missing in {words:?}");
        }
        let of = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        assert_eq!(of("plant="), plant.map(|plant| plant.to_string()).as_deref(), "{words:?}");
        assert_eq!(of("error="), error.map(|error: i32| error.to_string()).as_deref(), "{words:?}");
    }
}

/// The filter that asks for a line for each plant of an import or a batch.
const EACH_PLANT: (&str, &str) =
    ("RUST_LOG", "info,plantd::audit::import=debug,plantd::audit::batch=debug");

#[test]
fn an_import_has_one_line_with_its_counts_unless_the_log_is_asked_for_more() {
    let quiet = ["", "info", "debug,plantd::audit::import=info"].map(|filter| (filter, false));
    for (filter, each_plant) in quiet.into_iter().chain([(EACH_PLANT.1, true)]) {
        let mut server = TestServer::start_with(Launch::new().environment("RUST_LOG", filter));
        let client = server.client();
        client.create(2, "Rosa", None).assert_plant("Rosa", None);
        let rows: String = (1..=3).map(|id| plant_body(id, "Salix", None) + "\n").collect();
        let rows = rows + "{broken\n";
        let import = |on_conflict: &str, id: &str| {
            let path = format!("/plants/import?on_conflict={on_conflict}");
            let media_type = ("content-type", Format::Ndjson.media_type());
            client.send("POST", &path, &[media_type, ("x-request-id", id)], &rows)
        };
        for (on_conflict, id) in [("skip", "skips"), ("error", "fails"), ("replace", "replaces")] {
            assert_eq!(import(on_conflict, id).status, 200, "{filter}: {id}");
        }
        import("never", "broken").assert_error(400, 1006);
        assert_eq!(server.terminate().code(), Some(0));

        let log = server.stderr();
        // A row without an effect has no line.
        let skipped = ["created plant=1", "created plant=3"];
        let replaced = ["replaced plant=1", "replaced plant=2", "replaced plant=3"];
        for (id, counts, plants) in [
            ("skips", "created=2 replaced=0 skipped=1 failed=1", &skipped[..]),
            ("fails", "created=0 replaced=0 skipped=0 failed=4", &[]),
            ("replaces", "created=0 replaced=3 skipped=0 failed=1", &replaced),
        ] {
            let lines = lines_of(&log, &format!("id={id}"));
            let (rows, requests): (Vec<_>, Vec<_>) = lines
                .into_iter()
                .partition(|words| ["created", "replaced"].contains(&words[0].as_str()));
            assert_eq!(requests.len(), 1, "{filter}: {log}");
            let line = requests[0].join(" ");
            assert!(line.contains(&format!("token=PLANTD_TOKEN {counts}")), "{filter}: {line}");
            for words in &rows {
                assert!(words.contains(&"token=PLANTD_TOKEN".to_owned()), "{words:?}");
            }
            let told: Vec<String> =
                rows.iter().map(|words| format!("{} {}", words[0], words[3])).collect();
            assert_eq!(told, if each_plant { plants } else { &[] }, "{filter}: {log}");
        }
        assert_eq!(count(&log, AUDIT), 5, "{filter}: {log}");
        assert_eq!(count(&log, IMPORT), if each_plant { 5 } else { 0 }, "{filter}: {log}");
        assert_eq!(log.matches("created=").count(), 3, "what is no import: {log}");
    }
}

#[test]
fn a_batch_has_one_line_with_its_requests_and_one_for_each_if_the_log_is_asked_for_them() {
    let put =
        |id: i64| format!(r#"{{"method":"PUT","path":"/plants/{id}","body":{{"name":"A"}}}}"#);
    let on = |method: &str, id: i64| {
        format!(r#"{{"method":"{method}","path":"/plants/{id}","body":{{"tag":"B"}}}}"#)
    };
    let batch = batch_body(&[put(2), put(3), on("PATCH", 1), on("DELETE", 1), put(2)]);
    let failing = batch_body(&[put(4), on("DELETE", 5)]);
    for (filter, each_plant) in [("info", false), (EACH_PLANT.1, true)] {
        let mut server = TestServer::start_with(Launch::new().environment("RUST_LOG", filter));
        let client = server.client();
        client.create(1, "Rosa", None).assert_plant("Rosa", None);
        let json = ("content-type", "application/json");
        let send = |body: &str, id: &str| {
            client.send("POST", "/batch", &[json, ("x-request-id", id)], body).status
        };
        let statuses = [send(&batch, "done"), send(&failing, "fails"), send("{}", "broken")];
        assert_eq!(statuses, [200, 404, 400]);
        assert_eq!(server.terminate().code(), Some(0));

        let log = server.stderr();
        let told: &[&str] = match each_plant {
            true => &["created 2", "created 3", "updated 1", "deleted 1", "replaced 2"],
            false => &[],
        };
        assert_eq!(count(&log, BATCH), told.len(), "{log}");
        for (id, plants, word) in
            [("done", told, "requests=5"), ("fails", &[], "requests=2"), ("broken", &[], "1004")]
        {
            let lines = lines_of(&log, &format!("id={id}"));
            let (requests, writes): (Vec<_>, Vec<_>) =
                lines.into_iter().partition(|words| words.contains(&"/batch".to_owned()));
            assert_eq!(requests.len(), 1, "{log}");
            let line = requests[0].join(" ");
            assert!(line.contains(word) && line.contains("token=PLANTD_TOKEN"), "{line}");
            let of = |words: &[String]| {
                let plant = words.iter().find_map(|word| word.strip_prefix("plant="));
                assert!(words.contains(&"token=PLANTD_TOKEN".to_owned()), "{words:?}");
                format!("{} {}", words[0], plant.unwrap_or_default())
            };
            assert_eq!(writes.iter().map(|words| of(words)).collect::<Vec<_>>(), plants, "{log}");
        }
        assert_eq!(count(&log, AUDIT), 4, "{filter}: {log}");
    }
}

#[test]
fn a_read_and_a_refused_write_have_no_audit_line() {
    let mut server = server();
    let reader = create_token(server.data(), &["--name", "reader", "--scope", "read"]);
    let reader = server.client().with_token(&reader);
    wait_until("the token to be in force", || reader.get("/plants").status == 200);
    let id = [("x-request-id", "refused")];
    assert_eq!(reader.send("DELETE", "/plants/1", &id, "").status, 403);
    reader.without_token().send("DELETE", "/plants/1", &id, "").assert_error(401, 2001);
    reader.without_token().send("OPTIONS", "/plants/1", &id, "").assert_no_content();
    reader.read(1).assert_error(404, 3002);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    assert_eq!(count(&log, AUDIT), 0, "{log}");
    let refused = lines_of(&log, "id=refused");
    assert_eq!(refused.len(), 3, "{log}");
    assert!(refused[0].contains(&"token=reader".to_owned()), "{refused:?}");
    assert!(log.lines().filter(|line| line.contains("refused")).all(|line| line.contains(ACCESS)));
}

/// Sends a request and disconnects before its answer, until the log has a line of this target about the plant or
/// request, with these words. The disk is slow, so that the change is not yet done when the client disconnects.
#[track_caller]
fn check_gone(request: &[u8], target: &str, about: &str, words: &[&str]) {
    let (name, filter) = EACH_PLANT;
    let mut server = TestServer::start_with(Launch::new().environment(name, filter));
    let _slow = server.process().slow_down_syncs(COMMIT_THREAD, Duration::from_millis(300));
    let client = server.client();
    wait_until("a line about it", || {
        let mut connection = server.connect();
        connection.send(request);
        // Takes long enough for the server to read the other request, but not to answer it.
        client.get("/livez");
        connection.reset();
        let log = server.stderr();
        let mut lines = log.lines().filter(|line| line.contains(target) && line.contains(about));
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    });
}

#[test]
fn a_change_whose_client_disconnects_is_logged_without_an_outcome() {
    if !store_is_on_disk("the disk of its folder is slow") {
        return;
    }
    let token = "token=PLANTD_TOKEN";
    let body = plant_body(17, "Rosa", None);
    let create = raw_request("POST /plants", "Content-Type: application/json\r\n", &body);
    check_gone(&create, AUDIT, "plant=17", &["POST /plants - ", token]);
    let lines = "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n";
    let row = chunk(body + "\n");
    let import = [raw_head("POST /plants/import", lines).as_bytes(), &row].concat();
    check_gone(&import, IMPORT, "plant=17", &["unknown", token]);
    check_gone(&import, AUDIT, "unknown=1", &["/plants/import - ", "created=0", token]);
    let put = r#"{"method":"PUT","path":"/plants/17","body":{"name":"Rosa"}}"#;
    let batch = batch_body(&[put, put]);
    let batch = raw_request("POST /batch", "Content-Type: application/json\r\n", &batch);
    check_gone(&batch, BATCH, "plant=17", &["unknown", token]);
    check_gone(&batch, AUDIT, "requests=2", &["POST /batch - ", token]);
}
