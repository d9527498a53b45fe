//! The position in the bytes of a connection.

use actix_http::StatusCode;

use crate::server::http1::framing::BodyLength;
use crate::server::http1::request_end::{ChunksEnd, Found, HeadEnd};
use crate::server::http1::upgrade_option::UpgradeOption;

/// What the next byte of a connection belongs to.
pub(super) enum Reading {
    Head(HeadEnd, UpgradeOption),
    /// Unknown until the exchange begins and reports the body's length.
    BehindHead,
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
        Self::Head(HeadEnd::default(), UpgradeOption::default())
    }
}

impl Reading {
    /// The body behind a head.
    pub(super) fn body(length: BodyLength) -> Self {
        match length {
            BodyLength::Bytes(0) => Self::Next,
            BodyLength::Bytes(length) => Self::Bytes(length),
            BodyLength::Chunks => Self::Chunks(ChunksEnd::default()),
            BodyLength::Endless => Self::Endless,
        }
    }

    /// How many of these bytes, from their beginning, actix-http may read now. It gets those of a head without the option
    /// `upgrade`.
    pub(super) fn take(&mut self, bytes: &mut [u8]) -> usize {
        let (found, next) = match self {
            Self::Head(head, upgrade) => {
                let found = head.find(bytes);
                let end = found.end().unwrap_or(bytes.len());
                upgrade.hide(&mut bytes[..end]);
                (found, Self::BehindHead)
            }
            Self::Chunks(chunks) => (chunks.find(bytes), Self::Next),
            Self::Bytes(missing) => match usize::try_from(*missing) {
                Ok(end) if end <= bytes.len() => (Found::End(end), Self::Next),
                _ => {
                    // More are missing than there are.
                    *missing -= u64::try_from(bytes.len()).unwrap_or(u64::MAX);
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
                    Self::Head(head, _) if head.is_in_request_line() => {
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
