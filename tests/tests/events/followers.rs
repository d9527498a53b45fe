//! How many clients may follow, and what a client that does not read costs the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plantd_tests::{
    Answer, Authority, Client, Connection, EventStream, Format, Launch, Scrape, TestServer,
    plant_body, raw_head, stream_request, wait_for, wait_until,
};

use super::{HEARTBEAT, create_all, page};

/// A stream, or the refusal of one.
#[track_caller]
fn try_stream(connection: Connection) -> Result<EventStream, Answer> {
    EventStream::try_request(connection, &stream_request("after=now", ""))
}

#[track_caller]
fn assert_full(refusal: &Answer) {
    refusal.assert_error(503, 5003);
    let seconds = refusal.header("retry-after").and_then(|it| it.parse::<u32>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 0), "{refusal:?}");
}

#[test]
fn the_follower_above_the_limit_is_refused_until_another_one_leaves() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let authority = Authority::new();
    authority.issue().write(folder.path());
    let tls = authority.plain_client();
    for is_tls in [false, true] {
        let launch = if is_tls { Launch::new().tls(folder.path()) } else { Launch::new() };
        let server = TestServer::start_with(launch.arguments(["--max-followers", "2"]));
        let connect = || {
            if is_tls { server.connect_tls(&Arc::clone(&tls)) } else { server.connect() }
        };
        let client = if is_tls { server.tls_client(&authority) } else { server.client() };
        let mut stays = try_stream(connect()).expect("a place");
        let leaves = try_stream(connect()).expect("a second place");
        for _ in 0..3 {
            assert_full(&try_stream(connect()).expect_err("a third place"));
        }
        assert_full(&page(&client, "after=now&wait=50"));
        // A page that does not wait takes no place.
        assert_eq!(page(&client, "after=now").events(), []);
        assert_eq!(page(&client, "").events(), []);

        let begun = Instant::now();
        drop(leaves);
        let mut next = wait_for("a free place", || try_stream(connect()).ok());
        assert!(begun.elapsed() < HEARTBEAT - Duration::from_secs(3), "a heartbeat freed it");
        create_all(&client, [1]);
        for stream in [&mut stays, &mut next] {
            assert_eq!(stream.next_event().change(), ("created", 1));
        }
    }
}

#[test]
fn a_client_that_stops_sending_has_left_and_its_stream_ends() {
    let server = TestServer::start_with(Launch::new().arguments(["--max-followers", "1"]));
    let mut connection = server.connect();
    connection.send(stream_request("after=now", ""));
    assert_eq!(connection.receive_head().status, 200);
    let begun = Instant::now();
    connection.finish_sending();
    wait_until("a free place", || try_stream(server.connect()).is_ok());
    assert!(begun.elapsed() < HEARTBEAT - Duration::from_secs(3), "a heartbeat freed it");
    connection.wait_for_close();
}

#[test]
fn a_client_that_leaves_frees_its_place_even_if_bytes_follow_its_request() {
    let server = TestServer::start_with(Launch::new().arguments(["--max-followers", "1"]));
    for behind in ["", "\r\n", "X", &raw_head("GET /plants/1", "")] {
        for request in [
            stream_request("after=now", ""),
            raw_head("GET /events?after=now&wait=50", ""),
            raw_head("GET /events?after=now&wait=50", "Content-Length: 1\r\n"),
        ] {
            let mut connection = server.connect();
            connection.send(request.clone() + behind);
            wait_until("the place to be taken", || try_stream(server.connect()).is_err());
            drop(connection);
            let begun = Instant::now();
            wait_until("a free place", || try_stream(server.connect()).is_ok());
            let what = format!("{request:?} with {behind:?} behind it");
            assert!(begun.elapsed() < HEARTBEAT - Duration::from_secs(3), "{what}");
        }
    }
}

#[test]
fn a_client_that_sends_more_than_the_server_reads_ahead_gets_its_answer_without_a_wait() {
    const FURTHER: usize = 300;
    let server = TestServer::start_with(Launch::new().arguments(["--max-followers", "1"]));
    let behind = raw_head("GET /plants/1", "").repeat(FURTHER);
    let mut page = server.connect();
    let begun = Instant::now();
    page.send(raw_head("GET /events?after=now&wait=50", "") + &behind);
    assert_eq!(page.receive().status, 200);
    assert!(begun.elapsed() < HEARTBEAT - Duration::from_secs(3), "the page waited");
    for _ in 0..FURTHER {
        assert_eq!(page.receive().status, 404);
    }
    // A page with no request after it waits.
    let begun = Instant::now();
    page.send(raw_head("GET /events?after=now&wait=1", ""));
    assert_eq!(page.receive().status, 200);
    assert!(begun.elapsed() >= Duration::from_secs(1), "the page did not wait");

    let mut stream = server.connect();
    stream.send(stream_request("after=now", ""));
    assert_eq!(stream.receive_head().status, 200);
    let begun = Instant::now();
    stream.send(behind);
    wait_until("a free place", || try_stream(server.connect()).is_ok());
    assert!(begun.elapsed() < HEARTBEAT - Duration::from_secs(3), "a heartbeat freed it");
    assert!(stream.receive_until("HTTP/1.1 404").contains("\r\n0\r\n\r\nHTTP/1.1 404"));
}

#[test]
fn a_limit_of_zero_refuses_every_follower_but_no_page() {
    let server = TestServer::start_with(Launch::new().arguments(["--max-followers", "0"]));
    create_all(&server.client(), [1]);
    assert_full(&try_stream(server.connect()).expect_err("a place"));
    assert_full(&page(&server.client(), "after=now&wait=1"));
    // The page has an event, so it does not wait.
    assert_eq!(page(&server.client(), "wait=50").events().len(), 1);
}

/// Imports plants with the longest names and tags, whose events take 2 kB each.
#[track_caller]
fn import_long_plants(client: &Client, count: i64) {
    let long = "𝒑".repeat(255);
    let row = |id| plant_body(id, &long, Some(&long)) + "\n";
    let report = client.import(Format::Ndjson, "", (0..count).map(row).collect::<String>());
    assert_eq!(report.json()["created"], count);
}

#[test]
fn a_follower_that_does_not_read_is_disconnected_and_hurts_no_one() {
    const PLANTS: i64 = 24_000;
    // Half the size of all events; a page of them takes 2 MB.
    const MAX_KIB: u64 = 24 * 1024;
    let mut server = TestServer::start_with(Launch::new().arguments(["--max-followers", "2"]));
    let client = server.client();
    import_long_plants(&client, PLANTS);
    // Fills the cache of the tables, so that it does not count as a cost of the follower.
    let mut read = page(&client, "plants=true&limit=1000");
    while read.body != b"[]" {
        read = client.get(&read.next_events());
    }
    let mut other = EventStream::open(server.connect(), "after=now");

    let mut stuck = server.connect();
    stuck.send(stream_request("plants=true", ""));
    stuck.wait_for_bytes();
    let resident_kib = server.process().resident_kib();
    server.process().reset_peak_resident();
    let (begun, mut creates) = (Instant::now(), 0);
    wait_until("the server to give up", || {
        creates += 1;
        create_all(&client, [-creates]);
        assert_eq!(other.next_event().change(), ("created", -creates));
        try_stream(server.connect()).is_ok()
    });
    assert!(begun.elapsed() > HEARTBEAT, "the follower was disconnected before it was stuck");
    assert!(creates > 100, "the creates did not go on: {creates}");
    let more_kib = server.process().peak_resident_kib().saturating_sub(resident_kib);
    assert!(more_kib < MAX_KIB, "the server keeps {more_kib} KiB for the follower");
    let stalled = r#"plantd_followers_dropped_total{reason="stalled"}"#;
    assert_eq!(Scrape::of(&client).value(stalled), 1.0);
    let taken = stuck.receive_to_the_end();
    assert!(!taken.body.ends_with(b"\r\n0\r\n\r\n"), "the body ends as if it were whole");
}

#[test]
fn a_slow_follower_and_a_late_one_get_every_event() {
    // More than the buffers of the sockets hold, and than a page has.
    const PLANTS: i64 = 6_000;
    let server = TestServer::start();
    let mut slow = EventStream::open(server.connect(), "plants=true");
    import_long_plants(&server.client(), PLANTS);
    let mut late = EventStream::open(server.connect(), "limit=1");
    for id in 0..PLANTS {
        for stream in [&mut slow, &mut late] {
            assert_eq!(stream.next_event().change(), ("created", id));
        }
    }
}
