//! The cases on a connection to plantd itself.

use plantd_tests::{self as harness, Client, Connection, TestServer, raw_head};

use crate::cases::{self, Answer, Case, Then};
use crate::store::{CANARY, CANARY_NAME, assert_untouched, start_server};

/// The longest case that is sent byte by byte. Of a longer one, a piece is a part of it.
const BYTE_BY_BYTE_MAX_BYTES: usize = 2_000;

#[test]
fn requests_sent_in_one_piece_are_read_as_the_rfc_says_and_separately_from_the_next_request() {
    check(|connection, bytes| {
        // The server may close the connection before it has read all of a long case.
        let _ = connection.try_send(bytes);
    });
}

#[test]
fn what_is_sent_in_pieces_is_read_as_the_rfc_says_and_the_next_request_on_its_own() {
    check(|connection, bytes| {
        for piece in bytes.chunks(bytes.len().div_ceil(BYTE_BY_BYTE_MAX_BYTES)) {
            if connection.try_send(piece).is_err() {
                return;
            }
        }
    });
}

/// Sends each case on its own connection.
#[track_caller]
fn check(send: impl Fn(&mut Connection, &[u8])) {
    let server = start_server();
    let client = server.client();
    for (number, case) in cases::all().iter().enumerate() {
        check_case(&server, &client, case, number, &send);
    }
}

#[track_caller]
fn check_case(
    server: &TestServer,
    client: &Client,
    case: &Case,
    number: usize,
    send: impl Fn(&mut Connection, &[u8]),
) {
    let mut connection = server.connect();
    let canary = format!("canary-{number}");
    send(&mut connection, &case.sent(&canary_request(&canary)));
    if case.then == Then::Unfinished {
        connection.finish_sending();
    }
    let mut last = None;
    for wanted in &case.answers {
        last = Some((receive(&mut connection, case, *wanted), *wanted));
    }
    match case.then {
        Then::Kept => {
            receive_canary(&mut connection, case, &canary);
            let next = format!("next-{number}");
            connection.send(canary_request(&next));
            receive_canary(&mut connection, case, &next);
        }
        Then::Closed | Then::OldClosed | Then::Unfinished => {
            match last {
                // Only a first answer says so.
                Some((_, Answer::Empty(_))) => {}
                Some((last, _)) => {
                    let wanted = (case.then != Then::OldClosed).then_some("close");
                    assert_eq!(last.header("connection"), wanted, "{}: {last:?}", case.name);
                }
                None => panic!("{}: no answer is wanted", case.name),
            }
            // If the connection were kept open, the text behind the case would be answered before the end.
            let _ = connection.try_finish_sending();
            connection.assert_closed();
        }
    }
    assert_untouched(client, case, case.may_create());
}

fn canary_request(id: &str) -> String {
    raw_head(&format!("GET /plants/{CANARY}"), &format!("X-Request-Id: {id}\r\n"))
}

#[track_caller]
fn receive_canary(connection: &mut Connection, case: &Case, id: &str) {
    let answer = connection.try_receive();
    let answer = answer.unwrap_or_else(|cause| panic!("{}: no {id}: {cause}", case.name));
    assert_eq!(answer.header("x-request-id"), Some(id), "{}: {answer:?}", case.name);
    answer.assert_new_plant(CANARY, CANARY_NAME, None);
}

/// Receives the next answer, which is to be this one.
#[track_caller]
fn receive(connection: &mut Connection, case: &Case, wanted: Answer) -> harness::Answer {
    let received = match wanted {
        Answer::Head => connection.try_receive_head(),
        _ => connection.try_receive(),
    };
    let answer = received.unwrap_or_else(|cause| panic!("{}: no {wanted:?}: {cause}", case.name));
    let status = match wanted {
        Answer::Empty(status) | Answer::Error(status, _) => status,
        Answer::BrokenChunks | Answer::ImportError => 400,
        Answer::Created | Answer::Read | Answer::Head => 200,
        Answer::Continue => 100,
    };
    assert_eq!(answer.status, status, "{}: wanted {wanted:?}: {answer:?}", case.name);
    match wanted {
        Answer::Empty(_) | Answer::Head | Answer::Continue => {
            assert_eq!(answer.body, b"", "{}: {answer:?}", case.name);
        }
        Answer::Error(status, number) => {
            answer.assert_error(status, number);
        }
        Answer::BrokenChunks => {
            let message = answer.assert_error(400, 1001);
            assert!(message.contains("chunks are broken"), "{}: {message}", case.name);
            assert!(!message.contains("None"), "{}: {message}", case.name);
        }
        Answer::ImportError => {
            let message = answer.assert_error(400, 1001);
            assert!(message.contains("1 plants were created"), "{}: {message}", case.name);
        }
        Answer::Created => answer.assert_plant("Rosa", None),
        Answer::Read => answer.assert_new_plant(1, "Rosa", None),
    }
    answer
}
