//! Pages that wait for the next event.

use std::time::{Duration, Instant};

use plantd_tests::{Answer, Connection, Launch, TestServer, at_once, newest_cursor, raw_head};

use super::{changes, create_all, page};

/// Sends a request that waits for the next event for as long as a request may.
#[track_caller]
fn poll(server: &TestServer, query: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(raw_head(&format!("GET /events?wait=50&{query}"), ""));
    connection
}

/// The longest time for a poll that must not wait until its timeout.
const SOON: Duration = Duration::from_secs(40);

#[test]
fn a_poll_waits_and_every_poll_is_woken_by_the_next_event() {
    let server = TestServer::start();
    let client = server.client();
    create_all(&client, [1]);
    let after = format!("after={}", newest_cursor(&client));
    let begun = Instant::now();
    let mut polls: Vec<_> = [&after, &after, "after=now", "after=now&plants=true"]
        .into_iter()
        .map(|query| poll(&server, query))
        .collect();
    for waiting in &mut polls {
        waiting.assert_silent_for(Duration::from_millis(200));
    }
    client.create(2, "Abies", None).assert_plant("Abies", None);
    let answers: Vec<Answer> = polls.iter_mut().map(Connection::receive).collect();
    for answer in &answers {
        assert_eq!(changes(&answer.events()), [("created", 2)]);
        let link = answer.next_events();
        assert_eq!(answer.next_cursor(), answer.events()[0].cursor);
        assert!(link.contains("wait=50"), "{link}");
    }
    assert_eq!(answers[3].events()[0].plant, Some(("Abies".to_owned(), None)));
    assert!(begun.elapsed() < SOON, "the polls waited for their timeout");
}

#[test]
fn a_poll_without_an_event_times_out_as_an_empty_page_whose_link_leads_on() {
    let server = TestServer::start();
    let client = server.client();
    create_all(&client, [1]);
    let cursor = newest_cursor(&client);
    let after = format!("after={cursor}");
    let links = ["after=now", &after].map(|query| {
        let begun = Instant::now();
        let empty = page(&client, &format!("{query}&wait=1"));
        assert!(begun.elapsed() >= Duration::from_secs(1), "the poll did not wait");
        assert_eq!(empty.events(), []);
        assert_eq!(empty.next_cursor(), cursor);
        empty.next_events()
    });
    create_all(&client, [2]);
    for link in links {
        assert_eq!(changes(&client.get(&link).events()), [("created", 2)]);
    }
}

#[test]
fn a_poll_with_an_event_does_not_wait_and_neither_does_head() {
    let server = TestServer::start();
    let begun = Instant::now();
    assert_eq!(server.answer_to(raw_head("HEAD /events?wait=50", "")).status, 200);
    create_all(&server.client(), [1]);
    assert_eq!(changes(&poll(&server, "").receive().events()), [("created", 1)]);
    assert!(begun.elapsed() < SOON, "the poll waited");
}

#[test]
fn a_request_pipelined_after_a_poll_is_answered_after_it() {
    let server = TestServer::start();
    let mut connection = poll(&server, "after=now");
    connection.send(raw_head("GET /events?after=now", ""));
    connection.assert_silent_for(Duration::from_millis(200));
    create_all(&server.client(), [1]);
    assert_eq!(changes(&connection.receive().events()), [("created", 1)]);
    assert_eq!(connection.receive().events(), []);
}

#[test]
fn a_drain_answers_polls_at_once_and_loses_no_event() {
    // With a delay, polls wait until the drain itself begins.
    at_once(&["0s", "1s"], |delay| {
        let arguments = ["--drain-delay", delay, "--drain-timeout", "40s"];
        let mut server = TestServer::start_with(Launch::new().arguments(arguments));
        let client = server.client();
        create_all(&client, [1]);
        let cursor = newest_cursor(&client);
        let mut polls: Vec<_> = (0..3).map(|_| poll(&server, "after=now")).collect();
        for waiting in &mut polls {
            waiting.assert_silent_for(Duration::from_millis(100));
        }
        let begun = Instant::now();
        assert_eq!(server.terminate().code(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(30), "the polls delayed the end");
        for mut waiting in polls {
            let answer = waiting.receive();
            assert_eq!(answer.events(), []);
            assert_eq!(answer.next_cursor(), cursor);
            waiting.assert_ended("the end of a poll's connection");
        }
        server.restart();
        create_all(&server.client(), [2]);
        let events = page(&server.client(), &format!("after={cursor}")).events();
        assert_eq!(changes(&events), [("created", 2)]);
    });
}
