//! The cases on a connection to plantd itself.

use plantd_tests::{Answer, Connection};

use crate::cases::{self, Case, Expected, Then};
use crate::store::{CANARY, assert_untouched, read_request, receive_read, start_server};

/// The longest case that is sent byte by byte. A longer one is sent in this many pieces.
const BYTE_BY_BYTE_MAX_BYTES: usize = 2_000;

#[test]
fn requests_sent_in_one_piece_are_read_as_the_rfc_says_and_separately_from_the_next_request() {
    check(|connection, bytes| {
        // The server may close the connection before it has read all of a long case.
        let _ = connection.try_send(bytes);
    });
}

#[test]
fn requests_sent_in_pieces_are_read_as_the_rfc_says_and_separately_from_the_next_request() {
    check(|connection, bytes| {
        for piece in bytes.chunks(bytes.len().div_ceil(BYTE_BY_BYTE_MAX_BYTES)) {
            if connection.try_send(piece).is_err() {
                return;
            }
        }
    });
}

/// Sends each case on its own connection, followed by another request.
#[track_caller]
fn check(send: impl Fn(&mut Connection, &[u8])) {
    let server = start_server();
    let client = server.client();
    for (number, case) in cases::all().iter().enumerate() {
        let mut connection = server.connect();
        let canary = format!("canary-{number}");
        send(&mut connection, &case.sent(&read_request(CANARY, &canary)));
        if case.then == Then::Unfinished {
            connection.finish_sending();
        }
        let answers = case.answers.iter().map(|wanted| receive(&mut connection, case, *wanted));
        let answers: Vec<Answer> = answers.collect();
        if case.then == Then::Kept {
            receive_read(&mut connection, case, CANARY, &canary);
            let next = format!("next-{number}");
            connection.send(read_request(CANARY, &next));
            receive_read(&mut connection, case, CANARY, &next);
        } else {
            check_close(connection, case, answers.last().expect("each case has an answer"));
        }
        assert_untouched(&client, case, case.may_create());
    }
}

/// Asserts that the last answer announces the close of the connection, and that the server closes it.
#[track_caller]
fn check_close(mut connection: Connection, case: &Case, last: &Answer) {
    // actix-http's own answer to a broken head announces the close only if it is the first on its connection.
    if !matches!(case.answers.last(), Some(Expected::Empty(_))) {
        let wanted = (case.then != Then::OldClosed).then_some("close");
        assert_eq!(last.header("connection"), wanted, "{}: {last:?}", case.name);
    }
    // On a connection that stayed open, the text after the case would be answered before the end.
    let _ = connection.try_finish_sending();
    connection.assert_closed();
}

/// Receives the next answer, and asserts that it is this one.
#[track_caller]
fn receive(connection: &mut Connection, case: &Case, wanted: Expected) -> Answer {
    let received = match wanted {
        Expected::Head => connection.try_receive_head(),
        _ => connection.try_receive(),
    };
    let answer = received.unwrap_or_else(|cause| panic!("{}: no {wanted:?}: {cause}", case.name));
    let status = match wanted {
        Expected::Empty(status) | Expected::Error(status, _) => status,
        Expected::BrokenChunks | Expected::ImportError => 400,
        Expected::Created | Expected::Read | Expected::Head => 200,
        Expected::Options => 204,
        Expected::Continue => 100,
    };
    assert_eq!(answer.status, status, "{}: wanted {wanted:?}: {answer:?}", case.name);
    match wanted {
        Expected::Empty(_) | Expected::Head | Expected::Options | Expected::Continue => {
            assert_eq!(answer.body, b"", "{}: {answer:?}", case.name);
        }
        Expected::Error(status, number) => {
            answer.assert_error(status, number);
        }
        Expected::BrokenChunks => {
            let message = answer.assert_error(400, 1001);
            assert!(message.contains("chunks are broken"), "{}: {message}", case.name);
            assert!(!message.contains("None"), "{}: {message}", case.name);
        }
        Expected::ImportError => {
            let message = answer.assert_error(400, 1001);
            assert!(message.contains("1 plants were created"), "{}: {message}", case.name);
        }
        Expected::Created => answer.assert_plant("Rosa", None),
        Expected::Read => answer.assert_new_plant(1, "Rosa", None),
    }
    answer
}
