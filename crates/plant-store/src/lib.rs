//! Where plants are kept: the contract, the decision of one write, and repositories that keep the contract.
//!
//! - [`PlantRepository`] is the contract; its documentation says what every repository promises.
//! - [`SledRepository`] keeps it on one disk, with group commit: a log-structured merge tree with sled as its on-disk
//!   ordered map. [`SledInspection`] looks at such a database, also where it is damaged.
//! - [`MemoryRepository`] keeps nothing on disk: it is for tests.
//! - [`decision`] is for those who write a store, and the feature `conformance` holds what they wrote to the contract.
//!
//! plant-postgres keeps the contract in PostgreSQL.
//!
//! This crate knows no HTTP.
//!
//! ```
//! use plant_domain::{NewPlant, PlantId};
//! use plant_store::{PlantRepository, SledConfig, SledRepository};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let directory = folder.path().join("plants");
//! let repository = SledRepository::open(&SledConfig::new(directory))?;
//!
//! let willow = NewPlant::new(7, "Salix alba", None)?;
//! repository.create(willow, None).await?; // When this returns, the plant is on disk.
//!
//! let stored = repository.get(PlantId::from(7)).await?.expect("it was created");
//! assert_eq!(stored.plant.name(), "Salix alba");
//! repository.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `conformance`: the module of that name, which holds any repository to the contract. It is for tests: it panics. Its
//!   test of random operations is made with proptest 1.
//!
//! # Of other crates
//!
//! A repository is written with `#[async_trait]` of async-trait 0.1. Plants are those of [`plant_domain`].

#![forbid(unsafe_code)]

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod decision;
mod error;
mod event;
#[cfg(feature = "__fault-points")]
#[doc(hidden)]
pub mod fault;
#[cfg(not(feature = "__fault-points"))]
mod fault;
mod idempotency;
mod import;
mod memory;
mod plant_record;
mod preconditions;
mod repository;
mod sled;
mod stored_plant;

pub use error::{OpenError, StoreError, StoreFailure};
pub use event::{Event, EventKind, EventPage};
pub use idempotency::IdempotencyDigest;
pub use import::{Imported, OnConflict, UnknownOnConflict};
pub use memory::MemoryRepository;
pub use preconditions::{Precondition, Preconditions, Revisions};
pub use repository::{
    Created, DEFAULT_KEEP_EVENTS, PAGE_MAX_WORK, Page, PageRequest, PlantRepository, Put,
};
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use sled::benches;
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use sled::fuzzing;
pub use sled::{
    DEFAULT_CACHE_MIB, DEFAULT_CHANGES_IN_MEMORY, SledConfig, SledInspection, SledRepository,
    Verification,
};
pub use stored_plant::{Revision, StoredPlant};

/// The examples of the README, which are tested as these here are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
