//! Tables: immutable sorted maps on disk. Each is a sled database of its own.
//!
//! A table is filled once in ascending key order, sealed ([`seal`]), and only read afterwards. Its folder has sled's files
//! and nothing else. In sled it has a tree for each [`Map`], which holds [blocks](block) of entries by their first keys; a
//! tree with the [`BloomFilter`] over the keys of the plants; and the [`Summary`].
//!
//! This folder knows bytes and not what they mean.

mod block;
mod bloom_filter;
mod cursor;
mod database;
mod entries;
pub(crate) mod seal;
mod summary;
mod table;
pub(crate) mod writer;

pub(crate) use self::block::{BlockBuilder, BlockCursor};
pub(crate) use self::database::Map;
pub(crate) use self::entries::{Entries, Entry, EntrySink, EntrySource, Level};
pub(crate) use self::summary::TableMetadata;
pub(crate) use self::table::Table;
