//! Plants, and the rules that make one valid. This crate does no I/O, and knows no HTTP, no storage and no async
//! runtime.
//!
//! A [`Plant`] or [`NewPlant`] that exists is valid, because its constructor checks the rules. A change to a plant is a
//! [`PlantPatch`], and a search is a [`PlantFilter`]; both follow the rules too. A broken rule becomes an [`Error`]
//! with a number that programs branch on.
//!
//! ```
//! use plant_domain::NewPlant;
//!
//! let rose = NewPlant::new(7, "Rosa × damascena", Some("Rosaceae".to_owned()))?;
//! assert_eq!(rose.plant().name(), "Rosa × damascena");
//!
//! let violations = NewPlant::new(7, "", None).unwrap_err();
//! assert_eq!(violations.to_string(), "name must have 1 to 255 characters");
//! # Ok::<(), plant_domain::Violations>(())
//! ```
//!
//! Plants implement `Serialize` but not `Deserialize`: plant-http parses JSON itself, to report every problem of an
//! input. Other programs deserialize into a type of their own and call a constructor.

#![forbid(unsafe_code)]

mod error;
mod filter;
mod patch;
mod plant;
mod plant_id;
mod rules;

pub use error::{Error, error_number};
pub use filter::{PlantFilter, fold_name};
pub use patch::{PlantChanges, PlantPatch, TextPatch};
pub use plant::{COLUMNS, MEMBERS, NewPlant, NewPlantRef, OPTIONAL_MEMBERS, Plant, PlantRef};
pub use plant_id::{NotAPlantId, PlantId};
pub use rules::{
    MAX_CHARACTERS, NAME_MAX_CHARACTERS, PLANT_MAX_CHARACTERS, TAG_MAX_CHARACTERS, Violations,
    check_tag, check_tag_prefix,
};

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
