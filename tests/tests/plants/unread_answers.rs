//! Clients that request large answers without reading them: how much memory they cost, and what other clients notice.

use plant_http::limits::{PAGE_MAX_PLANTS, PLANT_ANSWER_MAX_BYTES};
use plantd_tests::{
    Answer, Connection, Format, Launch, NewPlant, TestServer, batch_body, raw_head, raw_request,
    stream_request, wait_until,
};

use super::{JSON, plant_all};

/// The memory of a connection without the buffered part of its answer, with the slack of the allocator.
const CONNECTION_KIB: usize = 256;

const ANSWERS_MAX_BYTES: usize = 24 * 1024 * 1024;

/// Fills a server with plants of the longest names and tags.
fn server_with(plants: usize, launch: Launch) -> TestServer {
    let server = TestServer::start_with(launch);
    let longest = "𝒑".repeat(super::TEXT_MAX_CHARACTERS);
    let plant = |id| NewPlant::new(id, &longest, Some(&longest));
    let plants: Vec<_> = (0..).take(plants).map(plant).collect();
    for plants in plants.chunks(PAGE_MAX_PLANTS) {
        plant_all(&server.client(), plants);
    }
    server
}

/// Sends a request, and reads only the head of the answer.
#[track_caller]
fn begin(server: &TestServer, request: impl AsRef<[u8]>) -> (Connection, Answer) {
    let mut connection = server.connect();
    connection.send(request);
    let head = connection.receive_head();
    (connection, head)
}

/// Asserts that the server's memory has grown by at most this many KiB since it was `resident_kib`.
#[track_caller]
fn assert_took_at_most(server: &mut TestServer, resident_kib: u64, most_kib: usize) {
    let took = server.process().peak_resident_kib().saturating_sub(resident_kib);
    assert!(took < most_kib as u64, "{took} KiB instead of at most {most_kib}");
}

/// Sends requests and reads only the heads of their answers, until one is refused. Returns the connections whose
/// answers fit into [`ANSWERS_MAX_BYTES`]; each takes room for so many plants.
#[track_caller]
fn fill(server: &TestServer, request: impl AsRef<[u8]>, plants: usize) -> Vec<Connection> {
    // A few more fit, because a part of each answer is in the buffers of the socket.
    let most = ANSWERS_MAX_BYTES / (plants * PLANT_ANSWER_MAX_BYTES) + 10;
    let mut unread = Vec::new();
    loop {
        let (connection, head) = begin(server, &request);
        if head.status != 200 {
            assert_eq!(head.status, 503, "{head:?}");
            return unread;
        }
        unread.push(connection);
        assert!(unread.len() < most, "{most} answers are not too many");
    }
}

fn launch() -> Launch {
    Launch::new().faults(&format!("answers-max-bytes=return({ANSWERS_MAX_BYTES})"))
}

#[test]
fn lists_that_nobody_reads_take_no_more_than_the_budget_and_small_answers_go_on() {
    let mut server = server_with(PAGE_MAX_PLANTS, launch());
    let client = server.client();
    let list = raw_head(&format!("GET /plants?limit={PAGE_MAX_PLANTS}"), "");
    assert_eq!(begin(&server, &list).1.status, 200);
    let resident_kib = server.process().resident_kib();
    let unread = fill(&server, &list, PAGE_MAX_PLANTS);
    let fit = ANSWERS_MAX_BYTES / (PAGE_MAX_PLANTS * PLANT_ANSWER_MAX_BYTES);
    assert!(unread.len() > fit / 2, "only {} lists fit", unread.len());
    let refused = client.list("limit=1000");
    refused.assert_error(503, 5003);
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(client.read(0).status, 200);
    assert_eq!(client.list("limit=1").status, 200);
    assert_eq!(client.delete(0).status, 204);
    let most_kib = ANSWERS_MAX_BYTES / 1024 + unread.len() * CONNECTION_KIB;
    assert_took_at_most(&mut server, resident_kib, most_kib);
    drop(unread);
    wait_until("room for a list", || client.list("limit=1000").status == 200);
}

#[test]
fn a_stream_that_nobody_reads_takes_a_small_part_of_its_plants() {
    // A page of the largest plants would take 2 MB per stream.
    const STREAMS: usize = 32;
    // A store in PostgreSQL has places for four, and one is for the export that is read.
    const EXPORTS: usize = 3;
    let mut server = server_with(2 * PAGE_MAX_PLANTS, Launch::new());
    let export = raw_head("GET /plants/export", "");
    for (request, count) in [(export, EXPORTS), (stream_request("plants=true", ""), STREAMS)] {
        let resident_kib = server.process().resident_kib();
        server.process().reset_peak_resident();
        let mut unread: Vec<_> = (0..count).map(|_| begin(&server, &request)).collect();
        for (connection, head) in &mut unread {
            assert_eq!(head.status, 200);
            connection.wait_for_bytes();
        }
        assert_eq!(
            server.client().export(Format::Ndjson).split(|byte| *byte == b'\n').count(),
            2001
        );
        assert_took_at_most(&mut server, resident_kib, 2 * count * CONNECTION_KIB);
    }
}

#[test]
fn the_answers_of_small_batches_that_nobody_reads_take_no_more_than_the_budget() {
    const REQUESTS: usize = 1000;
    let server = server_with(1, launch());
    let patch = r#"{"method":"PATCH","path":"/plants/0","body":{}}"#;
    let batch = raw_request("POST /batch", JSON, batch_body(&[patch; REQUESTS]));
    let unread = fill(&server, &batch, REQUESTS);
    assert_eq!(server.client().read(0).status, 200);
    drop(unread);
    wait_until("room for a list", || server.client().list("limit=1000").status == 200);
}
