//! Where requests end, read in parts that end anywhere.

use crate::limits::{HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES};
use crate::server::http1::request_end::{ChunksEnd, Found, HeadEnd};

/// The first byte is the length of the parts in which the others come, less one.
pub(super) fn head_end(input: &[u8]) {
    let Some((part_bytes, bytes)) = input.split_first() else { return };
    let whole = HeadEnd::default().find(bytes);
    let mut head = HeadEnd::default();
    let in_parts = find_in_parts(bytes, *part_bytes, |part| head.find(part));
    assert_eq!(in_parts, whole, "another end in parts");
    let (head, is_over) = match whole {
        Found::More => (bytes, false),
        Found::End(end) => (&bytes[..end], false),
        Found::Broken(end) => (&bytes[..end], true),
    };
    let longest = head.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).max();
    let is_at_limit = head.len() == HEAD_MAX_BYTES
        || head.rsplit(|byte| *byte == b'\n').next().map(<[u8]>::len) == Some(HEAD_LINE_MAX_BYTES);
    assert!(head.len() <= HEAD_MAX_BYTES && longest.unwrap_or(0) <= HEAD_LINE_MAX_BYTES);
    assert!(is_at_limit || !is_over, "refused within the limits");
    if let Found::End(_) = whole {
        assert!(head.ends_with(b"\n\n") || head.ends_with(b"\n\r\n"));
    }
}

/// As [`head_end`], for a body in chunks.
pub(super) fn chunks_end(input: &[u8]) {
    let Some((part_bytes, bytes)) = input.split_first() else { return };
    let whole = ChunksEnd::default().find(bytes);
    let mut chunks = ChunksEnd::default();
    let in_parts = find_in_parts(bytes, *part_bytes, |part| chunks.find(part));
    assert_eq!(in_parts, whole, "another end in parts");
    if let Found::End(end) = whole {
        assert!(bytes[..end].ends_with(b"\r\n\r\n"));
    }
}

/// What is found in parts of `part_bytes` + 1 bytes. Its position counts from the first byte of all parts.
fn find_in_parts(bytes: &[u8], part_bytes: u8, mut find: impl FnMut(&[u8]) -> Found) -> Found {
    let mut at = 0;
    for part in bytes.chunks(usize::from(part_bytes) + 1) {
        match find(part) {
            Found::More => at += part.len(),
            Found::End(end) => return Found::End(at + end),
            Found::Broken(end) => return Found::Broken(at + end),
        }
    }
    Found::More
}
