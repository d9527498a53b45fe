//! The keys of a search index.
//!
//! | key | value |
//! |---|---|
//! | `c`, chunk, [term](super::term) | the [postings](super::postings) of the term in the chunk |
//! | `o` | the outline: the number of the first block of each chunk |

pub(super) const OUTLINE: &[u8] = b"o";

pub(super) fn postings(chunk: usize, term: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok([&b"c"[..], &u32::try_from(chunk)?.to_be_bytes(), term].concat())
}
