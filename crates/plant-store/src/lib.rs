//! Where plants are kept: the contract, and durable repositories that keep it.
//!
//! - [`PlantRepository`] is the contract; its documentation says what every repository promises.
//! - [`SledRepository`] keeps it on one disk, with group commit.
//! - [`SledInspection`] looks at such a database, also where it is damaged.
//! - With the feature `postgres`, `PostgresRepository` keeps it in PostgreSQL, where many may work on the same plants.
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
//! None is on by default, and none but `postgres` belongs in a release.
//!
//! - `benches`: the module of that name, what the benchmarks of this project measure.
//! - `conformance`: the module of that name, which holds any repository against the contract. Its test of
//!   random operations is made with proptest 1.
//! - `fault-points`: the module `fault`, which lets the tests of this project stop the process, or make it
//!   panic, at named places.
//! - `fuzzing`: the module of that name, what reads stored bytes, for the fuzzer of this project.
//! - `postgres`: plants in PostgreSQL, by tokio-postgres 0.7. TLS is that of rustls 0.23.
//!
//! # Of other crates
//!
//! A repository is written with `#[async_trait]` of async-trait 0.1. Plants are those of [`plant_domain`]. What
//! made something fail, which is for people to read, is an error of anyhow 1.

#![forbid(unsafe_code)]

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod decision;
mod error;
mod event;
#[cfg(feature = "__fault-points")]
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
pub use sled::benches;
#[cfg(feature = "__internal")]
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
