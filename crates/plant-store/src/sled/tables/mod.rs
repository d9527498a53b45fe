//! Tables: immutable sorted maps on disk. Each is a sled database of its own.
//!
//! A table is filled once in ascending key order, sealed ([`seal`]), and only read afterwards. Its folder has sled's
//! files and nothing else. The database has a tree for each [`Map`], with [blocks](block) of entries under their first
//! keys; a tree with the [`BloomFilter`] of the plants' keys; and the [`Summary`].
//!
//! This folder knows the keys of plants. All other bytes have no meaning here.

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
