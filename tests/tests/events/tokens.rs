//! Followers whose token is revoked or expires.

use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::{
    Clock, Connection, EventStream, Launch, TOKEN, TestServer, create_token, raw_head,
    revoke_token, stream_request, wait_until,
};

use super::{HEARTBEAT, create_all, page};

/// How long followers may go on after the end of their token. A heartbeat comes later.
const SOON: Duration = Duration::from_secs(10);

/// The time that the documentation names, which a busy machine may sometimes miss.
const PROMISED: Duration = Duration::from_secs(2);

const _: () = assert!(SOON.as_secs() < HEARTBEAT.as_secs());

/// Makes a token with the scope `read`, and waits until the server takes it.
#[track_caller]
fn reader(server: &TestServer, arguments: &[&str]) -> String {
    let arguments = [&["--name", "reader", "--scope", "read"], arguments].concat();
    let token = create_token(server.data(), &arguments);
    let client = server.client().with_token(&token);
    wait_until("the server to take the token", || page(&client, "").status == 200);
    token
}

/// Asserts that followers with a token end soon after `end`, and those with another token do not. Returns how long
/// that took.
#[track_caller]
fn assert_ends_followers(server: &TestServer, token: &str, end: impl FnOnce()) -> Duration {
    create_all(&server.client(), [1]);
    let mut lasting = EventStream::open(server.connect(), "after=now");
    let mut stream = EventStream::open_with_token(server.connect(), "after=now", token);
    let old = stream_request("after=now", "Connection: keep-alive\r\n").replace(TOKEN, token);
    let old = old.replacen("HTTP/1.1", "HTTP/1.0", 1);
    let mut old = EventStream::request(server.connect(), &old);
    let mut poll: Connection = server.connect();
    poll.send(raw_head("GET /events?after=now&wait=50", "").replace(TOKEN, token));
    poll.assert_silent_for(Duration::from_millis(100));
    create_all(&server.client(), [2]);
    assert_eq!(poll.receive().events().len(), 1);
    for stream in [&mut stream, &mut old] {
        assert_eq!(stream.next_event().change(), ("created", 2));
    }
    poll.send(raw_head("GET /events?after=now&wait=50", "").replace(TOKEN, token));
    poll.assert_silent_for(Duration::from_millis(100));

    end();
    let begun = Instant::now();
    thread::scope(|scope| {
        for stream in [&mut stream, &mut old] {
            scope.spawn(|| assert_eq!(stream.next_block(), None, "something came before the end"));
        }
        scope.spawn(|| poll.receive().assert_error(401, 2002));
    });
    let took = begun.elapsed();
    assert!(took < SOON, "the followers ended after {took:?}");
    // A client that reconnects learns why.
    let request = stream_request("after=now", "").replace(TOKEN, token);
    let refused = EventStream::try_request(server.connect(), &request);
    refused.expect_err("the stream began").assert_error(401, 2002);
    create_all(&server.client(), [3]);
    let events = lasting.next_events(2);
    assert_eq!(super::changes(&events), [("created", 2), ("created", 3)]);
    took
}

#[test]
fn a_token_that_is_revoked_ends_its_streams_and_polls() {
    let is_prompt = (0..3).any(|_| {
        let server = TestServer::start();
        let token = reader(&server, &[]);
        let revoke = || revoke_token(server.data(), &["reader"]);
        assert_ends_followers(&server, &token, revoke) < PROMISED
    });
    assert!(is_prompt, "the followers never ended within {PROMISED:?}");
}

#[test]
fn a_token_that_expires_ends_its_streams_and_polls() {
    let clock = Clock::new();
    let server = TestServer::start_with(clock.launch(Launch::new()));
    let token = reader(&server, &["--expires", "1h"]);
    assert_ends_followers(&server, &token, || clock.set_offset(2 * 3600));
}

#[test]
fn a_token_that_is_revoked_ends_a_stream_that_always_has_events() {
    let server = TestServer::start();
    let token = reader(&server, &[]);
    let mut stream = EventStream::open_with_token(server.connect(), "after=now", &token);
    let client = server.client();
    create_all(&client, [0]);
    assert_eq!(stream.next_event().change(), ("created", 0));
    revoke_token(server.data(), &["reader"]);
    let (begun, mut id) = (Instant::now(), 0);
    while begun.elapsed() < SOON {
        id += 1;
        create_all(&client, [id]);
        match stream.next_block() {
            Some(block) => assert_eq!(block.event.map(|event| event.id), Some(id)),
            None => return,
        }
    }
    panic!("the stream has not ended, and has sent {id} events");
}
