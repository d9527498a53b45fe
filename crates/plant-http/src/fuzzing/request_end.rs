//! Where requests end, in parts that end anywhere.

use crate::request_end::{ChunksEnd, Found, HeadEnd};

/// The first byte says how long the parts are in which the others come.
pub(super) fn head_end(input: &[u8]) {
    let Some((part_bytes, bytes)) = input.split_first() else { return };
    let whole = HeadEnd::default().find(bytes);
    let mut head = HeadEnd::default();
    let mut at = 0;
    for part in bytes.chunks(usize::from(*part_bytes) + 1) {
        if let Some(end) = head.find(part) {
            assert_eq!(Some(at + end), whole, "another end in parts");
            let head = &bytes[..at + end];
            assert!(head.ends_with(b"\n\n") || head.ends_with(b"\n\r\n"));
            return;
        }
        at += part.len();
    }
    assert_eq!(whole, None, "no end in parts");
}

/// As [`head_end`], for a body in chunks.
pub(super) fn chunks_end(input: &[u8]) {
    let Some((part_bytes, bytes)) = input.split_first() else { return };
    let whole = ChunksEnd::default().find(bytes);
    let mut chunks = ChunksEnd::default();
    let mut at = 0;
    for part in bytes.chunks(usize::from(*part_bytes) + 1) {
        let found = match chunks.find(part) {
            Found::More => {
                at += part.len();
                continue;
            }
            Found::End(end) => Found::End(at + end),
            Found::Broken(end) => Found::Broken(at + end),
        };
        assert_eq!(found, whole, "another end in parts");
        if let Found::End(end) = found {
            assert!(bytes[..end].ends_with(b"\r\n\r\n"));
        }
        return;
    }
    assert_eq!(whole, Found::More, "no end in parts");
}
