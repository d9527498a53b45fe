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
