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

/// The line about the request with this id, and what it did to which plant in the lines of single writes. The token is
/// in all of them.
#[track_caller]
fn request_and_writes(log: &str, id: &str) -> (String, Vec<String>) {
    let (mut requests, mut writes) = (Vec::new(), Vec::new());
    for words in lines_of(log, &format!("id={id}")) {
        assert!(words.contains(&"token=PLANTD_TOKEN".to_owned()), "{words:?}");
        if words.contains(&"POST".to_owned()) {
            requests.push(words.join(" "));
        } else {
            let plant = words.iter().find_map(|word| word.strip_prefix("plant="));
            writes.push(format!("{} {}", words[0], plant.expect("a plant")));
        }
    }
    let [request] = <[String; 1]>::try_from(requests).expect("each request has one line");
    (request, writes)
}

#[test]
fn an_import_and_a_batch_have_one_line_with_their_counts_unless_the_log_is_asked_for_more() {
    let on = |method: &str, id: i64, body: &str| {
        format!(r#"{{"method":"{method}","path":"/plants/{id}","body":{body}}}"#)
    };
    let put = |id| on("PUT", id, r#"{"name":"A"}"#);
    let tag = r#"{"tag":"B"}"#;
    let batch = batch_body(&[put(12), put(13), on("PATCH", 1, tag), on("DELETE", 1, tag), put(12)]);
    let failing = batch_body(&[put(14), on("DELETE", 15, tag)]);
    let of_batch = ["created 12", "created 13", "updated 1", "deleted 1", "replaced 12"];
    let rows: String = (1..=3).map(|id| plant_body(id, "Salix", None) + "\n").collect();
    let rows = rows + "{broken\n";
    let replaced = ["replaced 1", "replaced 2", "replaced 3"];
    // A part of the line of each request, and its lines for plants. A row without an effect has none.
    let cases: [(&str, &str, &[&str]); 7] = [
        ("skip", "created=2 replaced=0 skipped=1 failed=1", &["created 1", "created 3"]),
        ("error", "created=0 replaced=0 skipped=0 failed=4", &[]),
        ("replace", "created=0 replaced=3 skipped=0 failed=1", &replaced),
        ("never", "error=1006", &[]),
        ("batch", "requests=5", &of_batch),
        ("failing", "requests=2", &[]),
        ("broken", "error=1004", &[]),
    ];
    let quiet = ["", "info", "debug,plantd::audit::import=info,plantd::audit::batch=info"];
    for filter in [&quiet[..], &[EACH_PLANT.1]].concat() {
        let mut server = TestServer::start_with(Launch::new().environment("RUST_LOG", filter));
        let client = server.client();
        client.create(2, "Rosa", None).assert_plant("Rosa", None);
        let send = |path: &str, media_type: &str, id: &str, body: &str| {
            let headers = [("content-type", media_type), ("x-request-id", id)];
            client.send("POST", path, &headers, body).status
        };
        for (on_conflict, status) in
            [("skip", 200), ("error", 200), ("replace", 200), ("never", 400)]
        {
            let path = format!("/plants/import?on_conflict={on_conflict}");
            assert_eq!(send(&path, Format::Ndjson.media_type(), on_conflict, &rows), status);
        }
        for (id, body, status) in
            [("batch", &*batch, 200), ("failing", &failing, 404), ("broken", "{}", 400)]
        {
            assert_eq!(send("/batch", "application/json", id, body), status, "{id}");
        }
        assert_eq!(server.terminate().code(), Some(0));

        let log = server.stderr();
        let each_plant = filter == EACH_PLANT.1;
        for (id, words, plants) in cases {
            let (request, writes) = request_and_writes(&log, id);
            assert!(request.contains(words), "{request}");
            assert_eq!(writes, if each_plant { plants } else { &[] }, "{filter}: {log}");
        }
        let writes = if each_plant { 5 } else { 0 };
        let counts = [AUDIT, IMPORT, BATCH].map(|target| count(&log, target));
        assert_eq!(counts, [1 + cases.len(), writes, writes], "{filter}: {log}");
        assert_eq!(log.matches("created=").count(), 3, "what is no import: {log}");
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
