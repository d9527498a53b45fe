//! Streams of Server-Sent Events.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use plantd_tests::{
    Authority, Connection, EventStream, Launch, TestServer, all_events, at_once, newest_cursor,
    raw_head, raw_request, stream_request, wait_until,
};

use super::{HEARTBEAT, changes, create_all, page};

#[test]
fn a_stream_has_its_headers_and_begins_with_a_bookmark_and_a_retry_time_of_its_own() {
    let server = TestServer::start();
    create_all(&server.client(), [1]);
    let cursor = newest_cursor(&server.client());
    let after = format!("after={cursor}");
    let mut retry_times = BTreeSet::new();
    wait_until("different times", || {
        let query = ["after=now", &after][retry_times.len() % 2];
        let mut stream = EventStream::open(server.connect(), query);
        let head = stream.head();
        assert_eq!(head.header("cache-control"), Some("no-cache, no-transform"), "{head:?}");
        assert_eq!(head.header("x-accel-buffering"), Some("no"), "{head:?}");
        assert_eq!(head.header("content-length"), None, "{head:?}");
        let vary = head.header("vary").unwrap_or_default();
        assert!(vary.split(',').any(|it| it.trim().eq_ignore_ascii_case("accept")), "{head:?}");
        let first = stream.next_block().expect("a block");
        let retry_ms = first.retry_ms.expect("a time to wait");
        assert!((1000..=5000).contains(&retry_ms), "{first:?}");
        assert_eq!(first.bookmark(), cursor);
        retry_times.insert(retry_ms);
        retry_times.len() > 2
    });
}

#[test]
fn a_stream_has_the_events_of_the_pages_in_order_and_then_each_new_one() {
    let server = TestServer::start();
    let client = server.client();
    create_all(&client, 1..=3);
    client.patch(2, r#"{"tag":"x"}"#).assert_plant("Rosa", Some("x"));
    client.delete(1).assert_no_content();
    let kept = all_events(&client, "");
    let mut from_oldest = EventStream::open(server.connect(), "");
    assert_eq!(from_oldest.next_events(5), kept);
    let after = format!("after={}&plants=true", kept[1].cursor);
    let mut from_cursor = EventStream::open(server.connect(), &after);
    let shown = from_cursor.next_events(3);
    assert_eq!(shown, page(&client, &after).events());
    assert_eq!(shown[1].plant, Some(("Rosa".to_owned(), Some("x".to_owned()))));
    let mut from_now = EventStream::open(server.connect(), "after=now");
    for id in 4..=50 {
        create_all(&client, [id]);
        for stream in [&mut from_oldest, &mut from_cursor, &mut from_now] {
            assert_eq!(stream.next_event().change(), ("created", id));
        }
    }
}

#[test]
fn a_silent_stream_has_a_bookmark_after_each_heartbeat() {
    let server = TestServer::start();
    let mut stream = EventStream::open(server.connect(), "");
    let first = stream.next_block().expect("a block").bookmark();
    let begun = Instant::now();
    let bookmark = stream.next_block().expect("a bookmark");
    assert!(begun.elapsed() > HEARTBEAT - Duration::from_secs(1), "the bookmark came too early");
    assert!(begun.elapsed() < HEARTBEAT * 2, "the bookmark came too late");
    assert_eq!(bookmark.retry_ms, None);
    assert_eq!(bookmark.bookmark(), first);
    // An event still arrives after the bookmark.
    create_all(&server.client(), [1]);
    assert_eq!(stream.next_event().change(), ("created", 1));
}

#[test]
fn a_stream_continues_after_last_event_id_which_overrides_after() {
    let server = TestServer::start();
    create_all(&server.client(), 1..=5);
    let events = all_events(&server.client(), "");
    let third = &events[2].cursor;
    let first = format!("after={}", events[0].cursor);
    for query in ["", "after=now", &first] {
        let mut stream = EventStream::resume(server.connect(), query, third);
        assert_eq!(stream.next_events(2), events[3..], "{query}");
    }
    // An empty `Last-Event-ID` counts as none.
    let mut stream = EventStream::resume(server.connect(), &first, "");
    assert_eq!(stream.next_events(4), events[1..]);
    // The header also overrides `after` of a page.
    let lines = format!("Last-Event-ID: {third}\r\n");
    let page = server.answer_to(raw_head(&format!("GET /events?{first}"), &lines));
    assert_eq!(page.events(), events[3..]);
    for last in ["now", "1", "1-", "x", "1-g", &format!("0{third}"), "é"] {
        let request = stream_request("", &format!("Last-Event-ID: {last}\r\n"));
        let refused = EventStream::try_request(server.connect(), &request);
        let message = refused.expect_err("the stream began").assert_error(400, 1007);
        assert!(message.contains("Last-Event-ID"), "{message}");
    }
    let request = stream_request("", &[lines.as_str(), &lines].concat());
    let refused = EventStream::try_request(server.connect(), &request);
    let message = refused.expect_err("the stream began").assert_error(400, 1007);
    assert!(message.contains("more than once"), "{message}");
    // A wrong parameter is refused, though the header overrides it.
    let request = stream_request("after=x", &lines);
    let refused = EventStream::try_request(server.connect(), &request);
    refused.expect_err("the stream began").assert_error(400, 1006);
}

#[test]
fn an_answer_is_a_stream_only_where_accept_prefers_it() {
    const PAGE: &str = "application/json";
    const STREAM: &str = "text/event-stream";
    let server = TestServer::start();
    for (accept, media_type) in [
        ("", PAGE),
        ("Accept: */*\r\n", PAGE),
        ("Accept: application/json, text/event-stream;q=0.5\r\n", PAGE),
        ("Accept: text/*\r\n", PAGE),
        ("Accept: text/event-stream;q=0.1, */*\r\n", PAGE),
        ("Accept: text/event-stream;q=0.1, application/*;q=0.2\r\n", PAGE),
        ("Accept: text/event-stream\r\n", STREAM),
        ("Accept: Text/Event-Stream\r\n", STREAM),
        ("Accept: text/event-stream, */*;q=0.1\r\n", STREAM),
        ("Accept: text/event-stream, */*\r\n", STREAM),
    ] {
        let mut connection = server.connect();
        connection.send(raw_head("GET /events", accept));
        let head = connection.receive_head();
        assert_eq!((head.status, head.header("content-type")), (200, Some(media_type)), "{accept}");
    }
}

#[test]
fn head_of_a_stream_has_its_headers_and_no_body_and_takes_no_place() {
    let server = TestServer::start_with(Launch::new().arguments(["--max-followers", "1"]));
    create_all(&server.client(), [1]);
    let mut connection = server.connect();
    for _ in 0..3 {
        connection.send(stream_request("", "").replacen("GET", "HEAD", 1));
        let head = connection.receive_head();
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(head.header("content-type"), Some("text/event-stream"), "{head:?}");
        assert_eq!(head.header("content-length"), None, "{head:?}");
    }
    connection.send(raw_request("GET /events", "", ""));
    assert_eq!(changes(&connection.receive().events()), [("created", 1)]);
    let mut stream = EventStream::open(server.connect(), "");
    assert_eq!(stream.next_event().change(), ("created", 1));
}

#[test]
fn a_drain_ends_streams_with_a_bookmark_from_which_they_resume_after_the_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let authority = Authority::new();
    authority.issue().write(folder.path());
    at_once(&["HTTP/1.1", "HTTP/1.0", "TLS"], |transport| {
        let is_tls = *transport == "TLS";
        let launch = if is_tls { Launch::new().tls(folder.path()) } else { Launch::new() };
        let launch = launch.arguments(["--drain-timeout", "40s"]);
        let mut server = TestServer::start_with(launch);
        let connect = |server: &TestServer| -> Connection {
            if is_tls { server.connect_tls(&authority.plain_client()) } else { server.connect() }
        };
        let client = |server: &TestServer| {
            if is_tls { server.tls_client(&authority) } else { server.client() }
        };
        let request = |lines: &str| {
            // HTTP/1.0 cannot honor `keep-alive` here: the body ends with the connection.
            let request = stream_request("", &format!("Connection: keep-alive\r\n{lines}"));
            if *transport == "HTTP/1.0" {
                request.replacen("HTTP/1.1", transport, 1)
            } else {
                request
            }
        };
        create_all(&client(&server), [1]);
        let mut stream = EventStream::request(connect(&server), &request(""));
        let chunked = stream.head().header("transfer-encoding").map(str::to_owned);
        let wanted = if *transport == "HTTP/1.0" { None } else { Some("chunked") };
        assert_eq!(chunked.as_deref(), wanted, "{transport}");
        if *transport == "HTTP/1.0" {
            assert_eq!(stream.head().header("connection"), None, "{:?}", stream.head());
        }
        assert_eq!(stream.next_event().change(), ("created", 1));
        create_all(&client(&server), [2]);
        let last = stream.next_event();
        assert_eq!(last.change(), ("created", 2));

        let begun = Instant::now();
        assert_eq!(server.terminate().code(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(30), "the stream delayed the end");
        assert_eq!(stream.assert_ends_with_bookmark(), last.cursor, "{transport}");
        if *transport != "HTTP/1.0" {
            stream.into_connection().assert_ended(transport);
        }

        server.restart();
        create_all(&client(&server), [3]);
        let lines = format!("Last-Event-ID: {}\r\n", last.cursor);
        let mut stream = EventStream::request(connect(&server), &request(&lines));
        assert_eq!(stream.next_event().change(), ("created", 3), "{transport}");
    });
}

#[test]
fn a_web_page_of_an_allowed_origin_may_follow_and_read_the_headers_that_it_needs() {
    const ORIGIN: &str = "https://garden.example";
    let server = TestServer::start_with(Launch::new().arguments(["--cors-origin", ORIGIN]));
    let preflight = [
        ("origin", ORIGIN),
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "authorization,last-event-id"),
    ];
    let answer = server.client().without_token().send("OPTIONS", "/events", &preflight, "");
    let has = |answer: &plantd_tests::Answer, header: &str, name: &str| {
        let names = answer.header(header).unwrap_or_default().to_ascii_lowercase();
        assert!(names.split(',').any(|it| it.trim() == name), "no {name}: {answer:?}");
    };
    has(&answer, "access-control-allow-origin", ORIGIN);
    has(&answer, "access-control-allow-headers", "last-event-id");
    has(&answer, "access-control-allow-headers", "authorization");
    let page = server.client().send("GET", "/events", &[("origin", ORIGIN)], "");
    has(&page, "access-control-expose-headers", "link");
    let list = server.client().send("GET", "/plants", &[("origin", ORIGIN)], "");
    has(&list, "access-control-expose-headers", "x-events-after");
    let stream = stream_request("", &format!("Origin: {ORIGIN}\r\n"));
    let stream = EventStream::request(server.connect(), &stream);
    has(stream.head(), "access-control-allow-origin", ORIGIN);
}
