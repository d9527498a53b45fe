//! The keys of a search index.
//!
//! | key | value |
//! |---|---|
//! | `c`, chunk, `b`, page | the first plants of [64](super::builder::BLOCKS_OF_A_PAGE) blocks of the chunk |
//! | `c`, chunk, [term](super::term) | the [postings](super::postings) of the term in the chunk |
//! | `o` | the outline: each [chunk](super::builder::Chunk) |

pub(super) const OUTLINE: &[u8] = b"o";

pub(super) fn page(chunk: usize, page: usize) -> anyhow::Result<Vec<u8>> {
    postings(chunk, &[&b"b"[..], &u32::try_from(page)?.to_be_bytes()].concat())
}

pub(super) fn postings(chunk: usize, term: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok([&b"c"[..], &u32::try_from(chunk)?.to_be_bytes(), term].concat())
}
