//! The cases on one connection to a proxy, and a victim's requests on others. All of them share the proxy's few
//! connections to plantd: if plantd and the proxy disagreed about where requests end, the victim would get another
//! client's answer, or none.

use std::collections::{BTreeMap, BTreeSet};

use plantd_tests::{Connection, Nginx, raw_head};

use crate::cases::{self, Case, Then};
use crate::store::{VICTIM, assert_untouched, read_request, receive_read, start_server};

/// How the proxy passes requests on: with as much of the client's own head as nginx allows.
const REQUESTS: &str = "
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    proxy_set_header Host $http_host;
    proxy_set_header Upgrade $http_upgrade;";

#[test]
fn behind_a_proxy_that_buffers_requests_every_client_gets_its_own_answer() {
    check("proxy_request_buffering on;");
}

#[test]
fn behind_a_proxy_that_streams_requests_every_client_gets_its_own_answer() {
    check("proxy_request_buffering off;");
}

/// Sends each case, with requests of a victim before, during and after it.
#[track_caller]
fn check(buffering: &str) {
    let server = start_server();
    let mut nginx = Nginx::in_front_of(server.address(), &[REQUESTS, buffering].concat());
    let client = server.client();
    for (number, case) in cases::all().iter().enumerate() {
        let mut resting = nginx.connect();
        ask(&mut resting, case, &format!("victim-{number}-before"));
        let mut attacker = nginx.connect();
        // The proxy may take the first request for a part of the case.
        let behind = ["attacker", "last"]
            .map(|id| raw_head("GET /plants/1", &format!("X-Request-Id: {id}-{number}\r\n")));
        // The proxy may close the connection before it has read all of a long case.
        let _ = attacker.try_send(case.sent_to_proxy(&behind.concat()));
        ask(&mut resting, case, &format!("victim-{number}-meanwhile"));
        if case.then == Then::Unfinished {
            let _ = attacker.try_finish_sending();
        }
        let received = attacker.receive_until(&format!("last-{number}"));
        assert!(!received.contains("victim"), "{}: {received}", case.name);
        ask(&mut resting, case, &format!("victim-{number}-afterwards"));
        ask(&mut nginx.connect(), case, &format!("victim-{number}-new"));
        // A proxy rewrites some cases, or continues where plantd would have closed the connection.
        assert_untouched(&client, case, true);
    }
    assert!(nginx.is_running());
    assert_connections_are_shared(&server.stderr());
}

/// Asserts that the victim gets its own answer.
#[track_caller]
fn ask(victim: &mut Connection, case: &Case, id: &str) {
    victim.send(read_request(VICTIM, id));
    receive_read(victim, case, VICTIM, id);
}

/// Asserts, by the server's log, that the proxy has sent requests of both sides on one connection.
#[track_caller]
fn assert_connections_are_shared(log: &str) {
    let mut sides: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in log.lines() {
        let mut words = line.split_whitespace();
        let Some(peer) = words.clone().find(|word| word.starts_with("127.0.0.1:")) else {
            continue;
        };
        let Some(id) = words.find_map(|word| word.strip_prefix("id=")) else { continue };
        let Some((side, _)) = id.split_once('-') else { continue };
        sides.entry(peer).or_default().insert(side);
    }
    let shared = sides.values().filter(|of| of.contains("victim") && of.contains("attacker"));
    assert!(shared.count() > 0, "no connection was shared: {sides:?}");
}
