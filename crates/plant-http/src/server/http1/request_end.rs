//! Finds the ends of request heads and chunked bodies in their bytes, with limits that do not depend on how the
//! bytes arrive.
//!
//! The head ends where actix-http finds its end: actix-http gets no byte behind it before. Of chunked bodies, this
//! scanner accepts less than actix-http does, so that a body that passes here never breaks there.

use memchr::memchr;

use crate::limits::{CHUNK_OVERHEAD_MAX_BYTES, HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES};
use crate::server::http1::upgrade_option::UpgradeOption;

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
    upgrade: UpgradeOption,
    announced: AnnouncedBody,
}

impl HeadEnd {
    /// Scans the next bytes, and makes the option `upgrade` in them meaningless.
    pub(crate) fn find(&mut self, bytes: &mut [u8]) -> Found {
        let mut at = 0;
        while at < bytes.len() {
            let room = (HEAD_MAX_BYTES - self.bytes).min(HEAD_LINE_MAX_BYTES - self.line_bytes);
            if room == 0 {
                return Found::Broken(at);
            }
            let rest = &mut bytes[at..];
            let rest_bytes = rest.len().min(room);
            let rest = &mut rest[..rest_bytes];
            let line_feed = memchr(b'\n', rest);
            let line = line_feed.unwrap_or(rest.len());
            self.scan_line(&mut rest[..line], line_feed.is_some());
            let scanned = line + usize::from(line_feed.is_some());
            self.bytes += scanned;
            at += scanned;
            if line_feed.is_none() {
                self.line_bytes += scanned;
            } else if self.line_has_content {
                self.has_request_line = true;
                (self.line_bytes, self.line_has_content) = (0, false);
            } else if self.has_request_line {
                return Found::End(at);
            } else {
                self.line_bytes = 0;
            }
        }
        Found::More
    }

    /// The next bytes of a line, without its line feed.
    fn scan_line(&mut self, part: &mut [u8], is_end: bool) {
        let is_begin = self.line_bytes == 0;
        if self.has_request_line {
            self.line_has_content |= !(part.is_empty() || is_begin && part == b"\r");
            self.upgrade.hide(part, is_begin);
        } else {
            self.line_has_content |= part.iter().any(|byte| *byte != b'\r');
        }
        if is_begin && is_end {
            self.announced.read(part);
        } else {
            self.announced = AnnouncedBody::Unclear;
        }
    }

    /// How many of the bytes that have arrived behind the head may be passed on with the head: those that are certainly of its
    /// body.
    pub(super) fn of_body(&self, arrived: usize) -> usize {
        match self.announced {
            AnnouncedBody::Bytes(length) => usize::try_from(length).unwrap_or(arrived).min(arrived),
            AnnouncedBody::None | AnnouncedBody::Unclear => 0,
        }
    }

    /// Whether the request line has begun and not ended.
    pub(super) fn is_in_request_line(&self) -> bool {
        self.line_has_content && !self.has_request_line
    }
}

/// The length of the body by the lines of the head, if they leave no doubt. actix-http decides the length; this only saves the
/// wait for its decision.
#[derive(Clone, Copy, Debug, Default)]
enum AnnouncedBody {
    #[default]
    None,
    /// There is one plain `Content-Length`.
    Bytes(u64),
    Unclear,
}

/// How lines begin that may change how long the body is, in lower case.
const UNCLEAR_LINES: [&[u8]; 4] = [b"transfer-encoding", b"upgrade", b"expect", b"connect "];

impl AnnouncedBody {
    /// Reads a whole line.
    fn read(&mut self, line: &[u8]) {
        const CONTENT_LENGTH: &[u8] = b"content-length";
        let begins_with =
            |begin: &[u8]| line.get(..begin.len()).is_some_and(|it| it.eq_ignore_ascii_case(begin));
        *self = match self {
            Self::None if begins_with(CONTENT_LENGTH) => {
                plain_length(&line[CONTENT_LENGTH.len()..]).map_or(Self::Unclear, Self::Bytes)
            }
            Self::Bytes(_) if begins_with(CONTENT_LENGTH) => Self::Unclear,
            _ if UNCLEAR_LINES.into_iter().any(begins_with) => Self::Unclear,
            _ => return,
        };
    }
}

/// The length in what stands behind the name of `Content-Length`; `None` if it is not a colon, maybe a space, and digits.
fn plain_length(value: &[u8]) -> Option<u64> {
    let value = value.strip_suffix(b"\r").unwrap_or(value).strip_prefix(b":")?;
    let digits = value.strip_prefix(b" ").unwrap_or(value);
    let is_plain = digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()
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
