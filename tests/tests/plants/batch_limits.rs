//! The limits of a batch, and bodies that are no batch.

use plantd_tests::{TestServer, batch_body, chunk, raw_head, wait_until};

use super::batch::{request, responses};
use super::{JSON, listed, send};

const BATCH_MAX_WRITES: usize = 1000;

const BATCH_BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// A batch takes room once this much of it has arrived.
const BEFORE_ROOM_BYTES: usize = 64 * 1024;

#[test]
fn a_batch_has_1_to_1000_requests() {
    let server = TestServer::start();
    let client = server.client();
    let batch = |requests: usize| -> Vec<String> {
        let paths = (0..requests).map(|id| format!("/plants/{id}"));
        paths.map(|path| request("PUT", &path, r#"{"name":"Rosa"}"#).json()).collect()
    };
    for requests in [0, BATCH_MAX_WRITES + 1] {
        let message = client.batch(&batch(requests)).assert_error(400, 1004);
        assert!(message.contains("1 to 1000"), "{message}");
    }
    assert_eq!(listed(&client), []);
    let responses = responses(&client.batch(&batch(BATCH_MAX_WRITES)));
    assert_eq!((responses.len(), listed(&client).len()), (BATCH_MAX_WRITES, BATCH_MAX_WRITES));
    assert!(responses.iter().all(|response| response["status"] == 201));
}

#[test]
fn a_batch_has_at_most_4194304_bytes_with_a_length_or_in_chunks() {
    let server = TestServer::start();
    for (id, bytes, is_taken) in
        [(1, BATCH_BODY_MAX_BYTES, true), (2, BATCH_BODY_MAX_BYTES + 1, false)]
    {
        let path = format!("/plants/{id}");
        let body = batch_body(&[request("PUT", &path, r#"{"name":"Rosa"}"#).json()]);
        let body = " ".repeat(bytes - body.len()) + &body;
        let mut connection = server.connect();
        connection.send(raw_head("POST /batch", &format!("{JSON}Transfer-Encoding: chunked\r\n")));
        for part in body.as_bytes().chunks(100_000) {
            // The server may refuse the rest.
            let _ = connection.try_send(chunk(part));
        }
        let _ = connection.try_send(chunk(""));
        for answer in [send(&server, "POST /batch", JSON, &body), connection.receive()] {
            if is_taken {
                assert_eq!(responses(&answer).len(), 1);
            } else {
                let message = answer.assert_error(400, 1003);
                assert!(message.contains("4194304"), "{message}");
            }
        }
        assert_eq!(server.client().read(id).status, if is_taken { 200 } else { 404 });
    }
}

#[test]
fn batches_that_arrive_slowly_keep_no_room_from_others_at_first_and_from_lists_never() {
    // The largest batches, more of them than there is room for.
    const SLOW: usize = 40;
    let mut server = TestServer::start();
    let length = format!("{JSON}Content-Length: {BATCH_BODY_MAX_BYTES}\r\n");
    let mut slow: Vec<_> = (0..SLOW).map(|_| server.connect()).collect();
    let sent = |place| place * BEFORE_ROOM_BYTES / SLOW;
    for (place, connection) in slow.iter_mut().enumerate() {
        connection.send(raw_head("POST /batch", &length));
        connection.send(" ".repeat(sent(place)));
    }
    wait_until("the server to have all connections", || server.process().sockets() > SLOW);
    let put = |bytes| {
        let body = batch_body(&[request("PUT", "/plants/1", r#"{"name":"Rosa"}"#).json()]);
        send(&server, "POST /batch", JSON, " ".repeat(bytes - body.len()) + &body)
    };
    assert_eq!(responses(&put(BATCH_BODY_MAX_BYTES)).len(), 1);

    for (place, connection) in slow.iter_mut().enumerate() {
        connection.send(" ".repeat(BEFORE_ROOM_BYTES - sent(place)));
    }
    let refused = slow.pop().expect("there are some").receive();
    refused.assert_error(503, 5003);
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(server.client().list("limit=1000").status, 200);
    drop(slow);
    wait_until("room for a batch", || put(BATCH_BODY_MAX_BYTES).status == 200);
}

#[test]
fn what_is_no_batch_is_refused_whole() {
    let server = TestServer::start();
    let of = |request: &str| batch_body(&[request]);
    let good = r#"{"method":"PUT","path":"/plants/1","body":{"name":"Rosa"}}"#;
    let begin = r#"{"method":"PUT","path":"/plants/1","body":{"name":"Rosa"}"#;
    let with = |more: &str| of(&format!("{begin},{more}}}"));
    let headers = |headers: &str| with(&format!(r#""headers":{headers}"#));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (body, number, word) in [
        (String::new(), 1001, "column"),
        (of(good) + "x", 1001, "column"),
        ("[".repeat(100_000), 1001, "column"),
        ("[]".to_owned(), 1004, "a batch must be a JSON object"),
        (format!("[[{good}]]"), 1004, "a batch must be a JSON object"),
        ("{}".to_owned(), 1004, "missing field `requests`"),
        (r#"{"requests":{}}"#.to_owned(), 1004, "expected an array of requests"),
        (r#"{"requests":null}"#.to_owned(), 1004, "expected an array of requests"),
        (format!(r#"{{"requests":[{good}],"more":1}}"#), 1004, "more"),
        (format!(r#"{{"requests":[{good}],"requ\u0065sts":[]}}"#), 1004, "duplicate field"),
        (format!(r#"{{"requests":[{}1]}}"#, "1,".repeat(1_000_000)), 1004, "1 to 1000"),
        (format!(r#"{{"requests":[{}{{}}]}}"#, "{},".repeat(1_000_000)), 1004, "1 to 1000"),
        (of("null"), 1004, "requests[0]: a request must be a JSON object"),
        (of(r#"["PUT","/plants/1",{},{"name":"Rosa"}]"#), 1004, "requests[0]: a request must"),
        (of(&deep), 1004, "requests[0]: "),
        (of("{}"), 1004, "requests[0]: method is missing; path is missing"),
        (of(r#"{"method":1,"path":null}"#), 1004, "method must be a string; path must be a string"),
        (of(r#"{"method":"PUT","path":"/plants/\ud800"}"#), 1004, "path must be a string"),
        (of(r#"{"method":"PUT","path":"/plants/1"}"#), 1004, "requests[0]: body is missing"),
        (with(r#""id":1"#), 1004, r#""id" is unknown"#),
        (with(r#""\ud800":1"#), 1004, "is unknown"),
        (with(r#""Method":"PUT""#), 1004, r#""Method" is unknown"#),
        (with(r#""method":"PUT""#), 1004, "method appears more than once"),
        (with(r#""body":{}"#), 1004, "body appears more than once"),
        (headers("null"), 1007, "headers must be a JSON object"),
        (headers("[]"), 1007, "headers must be a JSON object"),
        (headers(r#"{"Content-Type":"application/json"}"#), 1007, "Content-Type"),
        (headers(r#"{"If-Match":"*","if-match":"*"}"#), 1007, "If-Match appears more than once"),
        (headers(r#"{"If-Match":["*"]}"#), 1007, "If-Match must be a string"),
        (headers(r#"{"If-Match":"*\r\nX: y"}"#), 1007, "If-Match must be the value of a header"),
        (headers(r#"{"If-Match":"\u0000"}"#), 1007, "If-Match must be the value of a header"),
    ] {
        let answer = send(&server, "POST /batch", JSON, &body);
        let message = answer.assert_error(400, number);
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
    let not_utf8: Vec<u8> =
        of(good).bytes().map(|byte| if byte == b'R' { 0xff } else { byte }).collect();
    send(&server, "POST /batch", JSON, not_utf8).assert_error(400, 1001);
    for method in ["GET", "post", "PATCH ", ""] {
        let request = format!(r#"{{"method":"{method}","path":"/plants/1"}}"#);
        server.client().batch(&[request]).assert_error(404, 4004);
    }
    send(&server, "POST /batch?x=1", JSON, of(good)).assert_error(400, 1006);
    send(&server, "POST /batch", "Content-Type: application/merge-patch+json\r\n", of(good))
        .assert_error(400, 1002);
    let wrong_key = format!("{JSON}Idempotency-Key: 7\r\n");
    send(&server, "POST /batch", &wrong_key, of(good)).assert_error(400, 1007);
    assert_eq!(listed(&server.client()), []);
    assert_eq!(responses(&send(&server, "POST /batch", JSON, of(good))).len(), 1);
}
