//! Plant storage: the contract of a repository, the decision of one write, and implementations of the contract.
//!
//! - [`PlantRepository`] is the contract; its documentation lists the promises of every repository.
//! - [`SledRepository`] keeps plants on one disk, with group commit, in a log-structured merge tree. [`SledInspection`]
//!   inspects such a database, even a damaged one.
//! - [`Backup`] is a snapshot of such a database, as a stream of bytes. [`BackupReader`] verifies and restores it, and
//!   [`PointInTime`] adds the changes up to a later moment.
//! - [`Checkpoints`] keep the place of a reader of events that must not lose it.
//! - [`write`](mod@write) decides a write for any store. The feature `conformance` tests a store against the contract.
//!
//! The crate plant-postgres implements the contract on PostgreSQL. This crate knows no HTTP.
//!
//! Metrics have the types of prometheus 0.14 ([`metrics`]). Implement the contract with `#[async_trait]` of async-trait
//! 0.1.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod author;
mod batch;
mod checkpoints;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod event;
#[doc(hidden)]
pub mod fault;
mod format;
mod history;
mod idempotency;
mod import;
pub mod metrics;
#[cfg(feature = "conformance")]
mod next_version;
mod page;
mod preconditions;
mod record;
mod repository;
mod sled;
mod stored_plant;
mod tags;
pub mod write;

#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use self::sled::internal;
pub use self::sled::{
    Backup, BackupReader, DEFAULT_CACHE_MIB, DEFAULT_CHANGES_IN_MEMORY,
    DEFAULT_PLANTS_SCANNED_FIRST, LeftOut, PointInTime, Position, Pruned, RestoreError, Restored,
    SledConfig, SledInspection, SledRepository, Until, Verification, prune_archive,
};
pub use self::write::{Created, Put, Written};
pub use author::{AUTHOR_MAX_BYTES, Author, NotAnAuthor};
pub use batch::{BATCH_MAX_WRITES, Batch, BatchError, StoredResult};
pub use checkpoints::{Checkpoint, Checkpoints};
pub use error::{DiskShortage, OpenError, StoreError, StoreFailure};
pub use event::{
    DEFAULT_KEEP_EVENTS, DEFAULT_KEEP_EVENTS_FOR, Event, EventCursor, EventKind, EventPage,
    EventRetention, EventsAfter, KEEP_EVENTS_FOR_MAX_EVENTS, NotACursor,
};
pub use history::{HistoryPage, HistoryRequest, PastChange};
pub use idempotency::IdempotencyDigest;
pub use import::{Imported, OnConflict, UnknownOnConflict};
pub use page::Page;
pub use preconditions::{Precondition, Preconditions, Revisions};
pub use repository::{PAGE_MAX_WORK, PagePlace, PageRequest, PlantRepository, PlantSnapshot};
pub use stored_plant::{Revision, StoredPlant};
pub use tags::{TagCount, TagPage, TagPageRequest};
