//! Plants, and the rules that make one valid.
//!
//! This crate is the plant store's domain and nothing else: it knows no HTTP, no storage, no async
//! runtime and does no I/O. A [`Plant`] or [`NewPlant`] that exists is valid, because its constructor checks the rules:
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
//! A change to a plant is a [`PlantPatch`], what someone looks for is a [`PlantFilter`], and both have rules
//! too. What breaks one becomes an [`Error`] with a number that programs branch on.
//!
//! Plants are written by serde. They are read from JSON in one place only, plant-http, which tells a client everything
//! that is wrong; a program of yours reads into a type of its own and calls a constructor.

#![forbid(unsafe_code)]

mod error;
mod filter;
mod patch;
mod plant;
mod plant_id;
mod rules;

pub use error::{Error, error_number};
pub use filter::{PlantFilter, fold_name};
pub use patch::{PlantPatch, TagPatch};
pub use plant::{NewPlant, Plant};
pub use plant_id::{NotAPlantId, PlantId};
pub use rules::{Member, NAME_MAX_CHARACTERS, Rule, TAG_MAX_CHARACTERS, Violation, Violations};

/// The examples of the README, which are tested as these here are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
