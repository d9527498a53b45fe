//! The position in the bytes of a connection.

use actix_http::StatusCode;

use crate::server::http1::framing::BodyLength;
use crate::server::http1::request_end::{ChunksEnd, Found, HeadEnd};

/// What the next byte of a connection belongs to.
pub(super) enum Reading {
    Head(HeadEnd),
    /// Unknown until the exchange begins and reports the body's length. This many bytes of the body were passed on already.
    BehindHead {
        passed: usize,
    },
    /// A body with this many bytes left.
    Bytes(u64),
    Chunks(ChunksEnd),
    /// A body with a malformed chunk, which actix-http answers.
    BrokenBody,
    /// A head over a limit, to be answered with this status. actix-http still waits for its end.
    LongHead(StatusCode),
    /// Bytes that are discarded, because the answer closes the connection.
    Endless,
    /// The next request, once this one is answered.
    Next,
}

impl Default for Reading {
    fn default() -> Self {
        Self::Head(HeadEnd::default())
    }
}

impl Reading {
    /// The head has a body of this length.
    pub(super) fn begin_body(&mut self, length: BodyLength) {
        let passed = if let Self::BehindHead { passed } = self { *passed } else { 0 };
        *self = match length {
            BodyLength::Bytes(length) => match length.checked_sub(as_u64(passed)) {
                Some(0) => Self::Next,
                Some(missing) => Self::Bytes(missing),
                // Bytes of another request may have been passed on, so nothing more is read.
                None => Self::Endless,
            },
            BodyLength::Chunks if passed == 0 => Self::Chunks(ChunksEnd::default()),
            BodyLength::Chunks | BodyLength::Endless => Self::Endless,
        };
    }

    /// How many of these bytes, from their beginning, actix-http may read now. It gets a head without the option `upgrade`,
    /// and with as much of the body as has arrived if the head leaves no doubt about its length.
    pub(super) fn take(&mut self, bytes: &mut [u8]) -> usize {
        let (found, next) = match self {
            Self::Head(head) => match head.find(bytes) {
                Found::End(end) => {
                    let passed = head.of_body(bytes.len() - end);
                    (Found::End(end + passed), Self::BehindHead { passed })
                }
                found => (found, Self::Next),
            },
            Self::Chunks(chunks) => (chunks.find(bytes), Self::Next),
            Self::Bytes(missing) => match usize::try_from(*missing) {
                Ok(end) if end <= bytes.len() => (Found::End(end), Self::Next),
                _ => {
                    // More are missing than there are.
                    *missing -= as_u64(bytes.len());
                    (Found::More, Self::Next)
                }
            },
            _ => return 0,
        };
        match found {
            Found::More => bytes.len(),
            Found::End(end) => {
                *self = next;
                end
            }
            Found::Broken(end) => {
                *self = match self {
                    // RFC 9112, section 3, and RFC 6585, section 5.
                    Self::Head(head) if head.is_in_request_line() => {
                        Self::LongHead(StatusCode::URI_TOO_LONG)
                    }
                    Self::Head(..) => Self::LongHead(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
                    _ => Self::BrokenBody,
                };
                end
            }
        }
    }
}

fn as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a head of these lines, a body of five bytes, and the head of another request. Returns how many bytes behind the first
    /// head are passed on, and what is read next.
    fn passed_with(lines: &str) -> (usize, Reading) {
        let head = format!("{lines}\r\nHost: localhost\r\n\r\n");
        let mut reading = Reading::default();
        let taken = reading.take(format!("{head}hello{head}").into_bytes().as_mut_slice());
        (taken - head.len(), reading)
    }

    #[test]
    fn a_body_is_passed_on_with_its_head_only_if_its_length_is_beyond_doubt() {
        for plain in ["Content-Length: 5", "content-length:5"] {
            assert_eq!(passed_with(&format!("POST / HTTP/1.1\r\n{plain}")).0, 5, "{plain}");
        }
        for unclear in [
            "Accept: */*",
            "Content-Length: 0",
            "Content-Length: +5",
            "Content-Length: 5 ",
            "Content-Length : 5",
            "Content-Length:  5",
            "Content-Length: 5, 5",
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 5",
            "Content-Length: 5\r\nUpgrade: websocket",
            "Content-Length: 5\r\nExpect: 100-continue",
        ] {
            assert_eq!(passed_with(&format!("POST / HTTP/1.1\r\n{unclear}")).0, 0, "{unclear}");
        }
        assert_eq!(passed_with("CONNECT / HTTP/1.1\r\nContent-Length: 5").0, 0);
    }

    #[test]
    fn nothing_more_is_read_if_actix_http_sees_less_of_a_body_than_was_passed_on() {
        for (seen, is_endless) in [
            (BodyLength::Bytes(5), false),
            (BodyLength::Bytes(7), false),
            (BodyLength::Bytes(4), true),
            (BodyLength::Chunks, true),
            (BodyLength::Endless, true),
        ] {
            let (_, mut reading) = passed_with("POST / HTTP/1.1\r\nContent-Length: 5");
            reading.begin_body(seen);
            assert_eq!(matches!(reading, Reading::Endless), is_endless, "{seen:?}");
        }
    }
}
