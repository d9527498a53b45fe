//! Limits of heads and bodies. Each holds however the bytes arrive, and a client that exceeds it can still read the
//! answer.

use plant_http::limits::{
    BODY_MAX_BYTES, CHUNK_OVERHEAD_MAX_BYTES, HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES,
};
use plantd_tests::{
    Authority, Connection, Launch, TestServer, create_request, plant_body, raw_head,
};

/// How many lines a head may have, and how many of them [`raw_head`] makes.
const HEADER_LINES_MAX: usize = 96;
const OWN_HEADER_LINES: usize = 2;

/// How many bytes a client sends after a request that exceeds a limit.
const TAIL_BYTES: usize = 300_000;

/// A head of this many bytes, whose lines except the last have the greatest length.
fn head(bytes: usize) -> Vec<u8> {
    let mut lines = String::new();
    let line = |bytes: usize| format!("X: {}\r\n", "x".repeat(bytes - "X: \r\n".len()));
    loop {
        let missing = bytes - raw_head("GET /livez", &lines).len();
        if missing <= HEAD_LINE_MAX_BYTES {
            lines += &line(missing);
            return raw_head("GET /livez", &lines).into_bytes();
        }
        lines += &line(HEAD_LINE_MAX_BYTES / 2);
    }
}

fn head_with_line(bytes: usize) -> Vec<u8> {
    let line = format!("X: {}\r\n", "x".repeat(bytes - "X: \r\n".len()));
    raw_head("GET /livez", &line).into_bytes()
}

fn head_with_request_line(bytes: usize) -> Vec<u8> {
    let target = "x".repeat(bytes - "GET / HTTP/1.1\r\n".len());
    raw_head(&format!("GET /{target}"), "").into_bytes()
}

fn head_with_lines(count: usize) -> Vec<u8> {
    raw_head("GET /livez", &"X: x\r\n".repeat(count - OWN_HEADER_LINES)).into_bytes()
}

fn create(bytes: usize) -> Vec<u8> {
    let plant = plant_body(100, "Rosa", None);
    create_request(&(" ".repeat(bytes - plant.len()) + &plant)).into_bytes()
}

/// A create whose body is one chunk of 24 bytes, with this size line and these trailers.
fn chunked(size: &str, trailers: &str) -> Vec<u8> {
    let head = raw_head(
        "POST /plants",
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
    );
    let plant = plant_body(100, "Rosa", None);
    format!("{head}{size}\r\n{plant}\r\n0\r\n{trailers}\r\n").into_bytes()
}

fn create_in_chunks(bytes: usize) -> Vec<u8> {
    let plant = plant_body(100, "Rosa", None);
    let padding = bytes - plant.len();
    chunked(&format!("{padding:x}\r\n{}\r\n18", " ".repeat(padding)), "")
}

fn chunk_with_extension(bytes: usize) -> Vec<u8> {
    chunked(&format!("18;{}", "x".repeat(bytes - "18;\r\n".len())), "")
}

fn chunks_with_trailers(bytes: usize) -> Vec<u8> {
    chunked("18", &format!("X: {}\r\n", "x".repeat(bytes - "X: \r\n\r\n".len())))
}

/// The name of a limit, a function that makes a request of this many bytes or lines, the limit, and the status and
/// error number of the answers at the limit and above it. The number is 0 for an answer without one.
type Limit = (&'static str, fn(usize) -> Vec<u8>, usize, (u16, i32), (u16, i32));

const LIMITS: [Limit; 8] = [
    ("a head", head, HEAD_MAX_BYTES, (200, 0), (431, 0)),
    ("a line of a head", head_with_line, HEAD_LINE_MAX_BYTES, (200, 0), (431, 0)),
    ("the request line", head_with_request_line, HEAD_LINE_MAX_BYTES, (404, 4004), (414, 0)),
    ("the lines of a head", head_with_lines, HEADER_LINES_MAX, (200, 0), (431, 0)),
    ("a body", create, BODY_MAX_BYTES, (200, 0), (400, 1003)),
    ("a body in chunks", create_in_chunks, BODY_MAX_BYTES, (200, 0), (400, 1003)),
    ("a chunk's size", chunk_with_extension, CHUNK_OVERHEAD_MAX_BYTES, (200, 0), (400, 1001)),
    ("trailers", chunks_with_trailers, CHUNK_OVERHEAD_MAX_BYTES, (200, 0), (400, 1001)),
];

/// How a request arrives: its last bytes (their number) in pieces (their length), or all in one piece with the
/// request before it.
type Arrival = Option<(usize, usize)>;

const ARRIVALS: [Arrival; 6] =
    [Some((0, 1)), Some((20, 1)), Some((1, 1)), Some((3, 3)), Some((5_000, 5_000)), None];

#[track_caller]
fn send(arrival: Arrival, connection: &mut Connection, request: &[u8], tail: &[u8]) {
    let Some((end, piece)) = arrival else {
        let before = raw_head("GET /livez", "");
        connection.send([before.as_bytes(), request, tail].concat());
        assert_eq!(connection.receive().status, 200);
        return;
    };
    let (first, rest) = request.split_at(request.len().saturating_sub(end));
    connection.send(first);
    rest.chunks(piece).for_each(|piece| connection.send(piece));
    connection.send(tail);
}

#[track_caller]
fn check(connect: impl Fn() -> Connection) {
    for (name, request, max, within, beyond) in LIMITS {
        for arrival in ARRIVALS {
            let name = format!("{name} {arrival:?}");
            let mut connection = connect();
            send(arrival, &mut connection, &request(max), &[]);
            assert_answered(&mut connection, &name, within);
            connection.send(raw_head("DELETE /plants/100", ""));
            assert!([204, 404].contains(&connection.receive().status), "{name}");

            let mut connection = connect();
            // A body that is too large still has an end, after which nothing is read.
            let tail = if beyond.1 == 1003 { 0 } else { TAIL_BYTES };
            send(arrival, &mut connection, &request(max + 1), &vec![b'x'; tail]);
            assert_answered(&mut connection, &name, beyond);
            if tail > 0 {
                connection.finish_sending();
                connection.assert_ended(&name);
            }
        }
    }
}

#[track_caller]
fn assert_answered(connection: &mut Connection, name: &str, (status, number): (u16, i32)) {
    let answer = connection.try_receive().unwrap_or_else(|cause| panic!("{name}: {cause}"));
    assert_eq!(answer.status, status, "{name}: {answer:?}");
    if number != 0 {
        answer.assert_error(status, number);
    }
}

#[test]
fn limits_hold_however_the_bytes_arrive_and_the_client_can_read_the_answer() {
    let server = TestServer::start();
    check(|| server.connect());
}

#[test]
fn limits_hold_however_the_bytes_arrive_over_tls_too() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let authority = Authority::new();
    authority.issue().write(folder.path());
    let server = TestServer::start_with(Launch::new().tls(folder.path()));
    let client = authority.plain_client();
    check(|| server.connect_tls(&client));
}
