//! Finds the ends of request heads and chunked bodies in their bytes, with limits that do not depend on how the
//! bytes arrive.
//!
//! The head ends where actix-http finds its end: actix-http gets no byte behind it before. Of chunked bodies, this
//! scanner accepts less than actix-http does, so that a body that passes here never breaks there.

use crate::limits::{CHUNK_OVERHEAD_MAX_BYTES, HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES};

/// The result of scanning the next bytes of a head or of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All of the bytes belong to the head or body, which continues.
    More,
    /// This many bytes belong to the head or body, which ends there.
    End(usize),
    /// This many bytes belong to the head or body, and the next byte is over a limit or malformed.
    Broken(usize),
}

/// Looks for the end of a head: an empty line behind the request line.
#[derive(Debug, Default)]
pub(crate) struct HeadEnd {
    /// How many bytes of the head have arrived.
    bytes: usize,
    /// The number of these bytes in the unfinished line.
    line_bytes: usize,
    /// Whether that line has anything but a CR.
    line_has_content: bool,
    /// Whether a line with content has ended. Empty lines may precede it (RFC 9112, section 2.2).
    has_request_line: bool,
}

impl HeadEnd {
    /// Scans the next bytes.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Found {
        for (at, byte) in bytes.iter().enumerate() {
            if self.bytes == HEAD_MAX_BYTES || self.line_bytes == HEAD_LINE_MAX_BYTES {
                return Found::Broken(at);
            }
            self.bytes += 1;
            self.line_bytes += 1;
            match byte {
                b'\n' if self.line_has_content => {
                    self.has_request_line = true;
                    self.line_has_content = false;
                    self.line_bytes = 0;
                }
                b'\n' if self.has_request_line => return Found::End(at + 1),
                b'\n' => self.line_bytes = 0,
                b'\r' => self.line_has_content |= self.has_request_line && self.line_bytes > 1,
                _ => self.line_has_content = true,
            }
        }
        Found::More
    }

    /// Whether the request line has begun and not ended.
    pub(crate) fn is_in_request_line(&self) -> bool {
        self.line_has_content && !self.has_request_line
    }
}

/// Looks for the end of a chunked body (RFC 9112, section 7.1).
#[derive(Debug, Default)]
pub(crate) struct ChunksEnd {
    place: ChunksPlace,
    /// The size in the last size line, or how many bytes of that chunk are missing.
    size: u64,
    /// How many bytes of the size line, or of the trailers, have arrived.
    overhead_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunksPlace {
    #[default]
    SizeBegin,
    Size,
    /// White space behind a size: some senders pad it.
    SizePadding,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerBegin,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    End,
}

impl ChunksEnd {
    /// Scans the next bytes.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Found {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.place == ChunksPlace::Data {
                let rest = u64::try_from(bytes.len() - at).unwrap_or(u64::MAX);
                if self.size > rest {
                    self.size -= rest;
                    return Found::More;
                }
                // The size is not more than the rest, which is a usize.
                at += usize::try_from(self.size).unwrap_or(usize::MAX);
                self.place = ChunksPlace::DataCr;
                continue;
            }
            match self.next(*byte) {
                Some(place) => self.place = place,
                None => return Found::Broken(at),
            }
            at += 1;
            if self.place == ChunksPlace::End {
                return Found::End(at);
            }
        }
        Found::More
    }

    /// The place behind a byte outside of chunk data; `None` where the byte is malformed or over the limit.
    fn next(&mut self, byte: u8) -> Option<ChunksPlace> {
        use ChunksPlace::{
            Data, DataCr, DataLf, End, EndLf, Extension, Size, SizeBegin, SizeLf, SizePadding,
            TrailerBegin, TrailerLf, TrailerName, TrailerValue,
        };
        if self.place == SizeBegin {
            (self.size, self.overhead_bytes) = (0, 0);
        }
        self.overhead_bytes += 1;
        if self.overhead_bytes > CHUNK_OVERHEAD_MAX_BYTES {
            return None;
        }
        Some(match (self.place, byte) {
            (SizeBegin | Size, byte) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16)?;
                self.size = self.size.checked_mul(16)?.checked_add(digit.into())?;
                Size
            }
            (Size | SizePadding, b' ' | b'\t') => SizePadding,
            (Size | SizePadding, b';') => Extension,
            (Extension, byte) if may_be_in_line(byte) => Extension,
            (Size | SizePadding | Extension, b'\r') => SizeLf,
            (SizeLf, b'\n') => {
                self.overhead_bytes = 0;
                if self.size == 0 { TrailerBegin } else { Data }
            }
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => SizeBegin,
            (TrailerBegin, b'\r') => EndLf,
            (TrailerBegin | TrailerName, byte) if is_token(byte) => TrailerName,
            (TrailerName, b':') => TrailerValue,
            (TrailerValue, byte) if may_be_in_line(byte) => TrailerValue,
            (TrailerValue, b'\r') => TrailerLf,
            (TrailerLf, b'\n') => TrailerBegin,
            (EndLf, b'\n') => End,
            _ => return None,
        })
    }
}

/// Whether the byte is a tab or no control character.
fn may_be_in_line(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

/// Whether the byte may be in a name (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use actix_codec::Decoder as _;
    use actix_http::h1::{Codec, Message};
    use actix_web::rt::System;
    use actix_web::web::BytesMut;
    use fastrand::Rng;

    use super::*;
    use crate::server::http1::framing::BodyLength;

    const SEED: u64 = 7;
    const INPUTS: usize = 20_000;

    /// Bytes that decide where something ends.
    const TELLING: &[u8] = b"\r\n\r\n\r\n 0123aF;:=\t\0x_";

    const CHUNKED_HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// How actix-http decodes bytes.
    #[derive(Debug, PartialEq, Eq)]
    enum Decoded {
        /// This many bytes are a whole request.
        Whole(usize),
        Part,
        Refused,
    }

    fn decode(bytes: &[u8]) -> Decoded {
        let mut codec = Codec::default();
        let mut buffer = BytesMut::from(bytes);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(Message::Item(request))) => {
                    if BodyLength::of(request.head()) == BodyLength::Bytes(0) {
                        break;
                    }
                }
                Ok(Some(Message::Chunk(Some(_)))) => {}
                Ok(Some(Message::Chunk(None))) => break,
                Ok(None) => return Decoded::Part,
                Err(_) => return Decoded::Refused,
            }
        }
        Decoded::Whole(bytes.len() - buffer.len())
    }

    fn changed(input: &[u8], chance: &mut Rng) -> Vec<u8> {
        let mut changed = input.to_vec();
        for _ in 0..chance.usize(..4) {
            let begin = chance.usize(..=changed.len());
            let end = chance.usize(begin..=changed.len().min(begin + 3));
            let put = (0..chance.usize(..3)).map(|_| TELLING[chance.usize(..TELLING.len())]);
            let put: Vec<u8> = put.collect();
            changed.splice(begin..end, put);
        }
        changed
    }

    #[test]
    fn chunks_end_where_actix_http_finds_their_end_and_break_no_later() {
        System::new().block_on(async {
            let mut chance = Rng::with_seed(SEED);
            let whole =
                b"3;a=b\r\nabc\r\n0F \r\n0123456789abcde\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1";
            let mut ends = 0;
            for _ in 0..INPUTS {
                let body = changed(whole, &mut chance);
                let decoded = |end: usize| decode(&[CHUNKED_HEAD, &body[..end]].concat());
                match ChunksEnd::default().find(&body) {
                    Found::More => assert_eq!(decoded(body.len()), Decoded::Part, "{body:?}"),
                    Found::Broken(end) => assert_eq!(decoded(end), Decoded::Part, "{body:?}"),
                    Found::End(end) => {
                        let request = Decoded::Whole(CHUNKED_HEAD.len() + end);
                        assert_eq!(decoded(end), request, "{body:?}");
                        assert_eq!(decoded(end - 1), Decoded::Part, "{body:?}");
                        ends += 1;
                    }
                }
            }
            assert!(ends > INPUTS / 10, "chance breaks almost all of it");
        });
    }

    #[test]
    fn a_head_ends_where_actix_http_finds_its_end_or_is_refused_by_then() {
        System::new().block_on(async {
            let mut chance = Rng::with_seed(SEED);
            let whole = b"\r\n\nGET /a HTTP/1.1\r\nHost:\r\n\r\nGET /b HTTP/1.1\r\nHost:\r\n\r\n";
            let mut ends = 0;
            for _ in 0..INPUTS {
                let head = changed(whole, &mut chance);
                match HeadEnd::default().find(&head) {
                    Found::More => {
                        assert!(!matches!(decode(&head), Decoded::Whole(_)), "{head:?}");
                    }
                    Found::Broken(_) => panic!("it is within the limits: {head:?}"),
                    Found::End(end) => {
                        let decoded = decode(&head[..end]);
                        assert_ne!(decoded, Decoded::Part, "it would wait for more: {head:?}");
                        if decoded != Decoded::Refused {
                            assert_eq!(decoded, Decoded::Whole(end), "{head:?}");
                            assert_eq!(decode(&head[..end - 1]), Decoded::Part, "{head:?}");
                            ends += 1;
                        }
                    }
                }
            }
            assert!(ends > INPUTS / 10, "chance breaks almost all of it");
        });
    }
}
