//! `GET /metrics`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use plantd_tests::{
    Authority, Client, EventStream, Format, Launch, Scrape, TOKEN, TestServer, create_token,
    plant_body, revoke_token, store_is_on_disk, temporary_folder, wait_until,
};

/// A server has at most this many series, whatever its clients do.
const MOST_SERIES: usize = 550;

fn keep_busy(server: &TestServer) {
    let client = server.client();
    for id in 1..=20 {
        client
            .create(id, "Rosa canina", Some("Rosaceae"))
            .assert_plant("Rosa canina", Some("Rosaceae"));
    }
    client.create(1, "Rosa", None).assert_error(400, 3001);
    client.read(-1).assert_error(404, 3002);
    client.list("?name=ros");
    client.import(Format::Ndjson, "", "{\"id\":30,\"name\":\"Abies\"}\n");
    client.export(Format::Csv);
    client.delete(30);
    client.get("/events");
    client.without_token().read(1).assert_error(401, 2001);
    assert_eq!(client.get("/").status, 200);
}

#[track_caller]
fn assert_without_fault(scrape: &Scrape) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    let mut stdin = promtool.stdin.take().expect("standard input is a pipe");
    stdin.write_all(scrape.text.as_bytes()).expect("promtool reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn promtool_accepts_the_metrics_of_a_busy_server_and_counters_only_grow() {
    let server = TestServer::start();
    let client = server.client();
    let mut last = Scrape::of(&client);
    assert_without_fault(&last);
    for round in 1..=3 {
        for id in 1..=20 {
            client.create(100 * round + id, "Rosa", None).assert_plant("Rosa", None);
        }
        client.read(-1).assert_error(404, 3002);
        let scrape = Scrape::of(&client);
        assert_without_fault(&scrape);
        for (series, before) in last.counters() {
            let now = scrape.value(series);
            assert!(now >= before, "{series} fell from {before} to {now}");
        }
        last = scrape;
    }
    assert_eq!(last.value("plantd_plants"), 60.0);
}

#[test]
fn the_expiry_of_the_certificate_in_force_is_exported() {
    let folder = temporary_folder();
    let authority = Authority::new();
    let expiry_of = |client: &Client| {
        let scrape = Scrape::of(client);
        assert_without_fault(&scrape);
        scrape.value("plantd_certificate_expiry_timestamp_seconds")
    };
    let expiring = |year: i16| {
        authority.issue_until(year.into()).write(folder.path());
        let date = jiff::civil::date(year, 1, 1).to_zoned(jiff::tz::TimeZone::UTC).expect("a date");
        date.timestamp().as_second() as f64
    };
    let first = expiring(2040);
    let server = TestServer::start_with(Launch::new().tls(folder.path()));
    let client = server.tls_client(&authority);
    assert_eq!(expiry_of(&client), first);
    let second = expiring(2041);
    wait_until("the new certificate to be in force", || expiry_of(&client) == second);
}

#[test]
fn each_request_is_counted_once_by_its_route_and_each_error_by_its_number() {
    let server = TestServer::start();
    let requests = |route: &str, method: &str, status: &str| {
        let labels = format!(r#"{{method="{method}",route="{route}",status_class="{status}"}}"#);
        Scrape::of(&server.client()).value(&format!("plantd_http_requests_total{labels}"))
    };
    keep_busy(&server);
    assert_eq!(requests("/plants", "POST", "2xx"), 20.0);
    assert_eq!(requests("/plants", "POST", "4xx"), 1.0);
    assert_eq!(requests("/plants/{id}", "GET", "4xx"), 2.0);
    let head = server.client().send("HEAD", "/plants/-1", &[], "");
    assert_eq!((head.status, requests("/plants/{id}", "GET", "4xx")), (404, 3.0));
    assert_eq!(requests("/plants/import", "POST", "2xx"), 1.0);
    assert_eq!(requests("/plants/export", "GET", "2xx"), 1.0);
    assert_eq!(requests("page", "GET", "2xx"), 1.0);
    let scrape = Scrape::of(&server.client());
    for (number, count) in [(2001, 1.0), (3001, 1.0), (3002, 2.0), (5001, 0.0)] {
        assert_eq!(scrape.value(&format!("plantd_http_errors_total{{error=\"{number}\"}}")), count);
    }
    let count = r#"plantd_http_request_duration_seconds_count{method="POST",route="/plants"}"#;
    assert_eq!(scrape.value(count), 21.0);
    let changes = scrape.value("plantd_commit_group_changes_sum");
    assert_eq!(changes, 22.0, "20 creates, an import of one and a deletion");
    let commits = scrape.value("plantd_commit_group_changes_count");
    assert_eq!(scrape.value("plantd_commit_seconds_count"), commits);
    assert_eq!(scrape.value("plantd_plants"), 20.0);
    assert_eq!(scrape.value("plantd_ready"), 1.0);
    assert!(scrape.value("plantd_newest_event_revision") >= 22.0);
    assert!(scrape.has("plantd_oldest_event_timestamp_seconds"));
}

#[test]
fn a_request_whose_client_leaves_before_the_answer_is_counted_without_a_status() {
    let server = TestServer::start();
    let mut connection = server.connect();
    connection.begin_create(&plant_body(1, "Rosa", None));
    connection.reset();
    let none = r#"plantd_http_requests_total{method="POST",route="/plants",status_class="none"}"#;
    wait_until("the request to be counted", || Scrape::of(&server.client()).value(none) == 1.0);
}

#[test]
fn ten_thousand_ids_paths_and_methods_make_no_more_series() {
    let server = TestServer::start();
    keep_busy(&server);
    let before = Scrape::of(&server.client());
    let mut connection = server.connect();
    let line = format!("Host: plants\r\nAuthorization: Bearer {}\r\n\r\n", TOKEN);
    for id in 0..10_000 {
        let target = match id % 4 {
            0 => format!("BREW{id} /plants"),
            1 => format!("GET /nowhere/{id}"),
            _ => format!("GET /plants/{id}?x={id}"),
        };
        connection.send(format!("{target} HTTP/1.1\r\n{line}"));
        connection.receive();
    }
    let after = Scrape::of(&server.client());
    assert_eq!(after.names(), before.names());
    let series = after.series().len();
    assert_eq!(series, before.series().len());
    assert!(series <= MOST_SERIES, "{series} series");
    let other = r#"plantd_http_requests_total{method="other",route="other",status_class="4xx"}"#;
    assert_eq!(after.value(other), 5_000.0);
}

#[test]
fn a_follower_that_loses_its_token_is_counted() {
    let server = TestServer::start();
    let token = create_token(server.data(), &["--name", "follower", "--scope", "read"]);
    let client = server.client();
    wait_until("the token to be in force", || client.with_token(&token).read(-1).status == 404);
    let mut stream = EventStream::open_with_token(server.connect(), "", &token);
    wait_until("the follower to be counted", || {
        Scrape::of(&client).value("plantd_followers") == 1.0
    });
    revoke_token(server.data(), &["follower"]);
    while stream.next_block().is_some() {}
    let dropped = r#"plantd_followers_dropped_total{reason="token_ended"}"#;
    wait_until("the end to be counted", || {
        let scrape = Scrape::of(&client);
        scrape.value("plantd_followers") == 0.0 && scrape.value(dropped) == 1.0
    });
}

#[test]
fn compaction_and_the_waits_for_it_are_measured() {
    if !store_is_on_disk("PostgreSQL has files of its own") {
        return;
    }
    let server = TestServer::start_with(Launch::new().faults("changes-in-memory=return(50)"));
    let client = server.client();
    let mut next = 0;
    wait_until("each kind of work and of wait to be measured", || {
        let rows = (next..next + 1_000).map(|id| format!("{{\"id\":{id},\"name\":\"Abies\"}}\n"));
        client.import(Format::Ndjson, "", rows.collect::<String>());
        next += 1_000;
        let scrape = Scrape::of(&client);
        [
            r#"plantd_compaction_busy_seconds_total{kind="flush"}"#,
            r#"plantd_compaction_busy_seconds_total{kind="merge"}"#,
            r#"plantd_write_stall_seconds_count{kind="stopped"}"#,
        ]
        .iter()
        .all(|series| scrape.value(series) > 0.0)
    });
}
