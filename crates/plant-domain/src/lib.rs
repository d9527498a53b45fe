//! Plants, and the rules that make one valid.
//!
//! This crate is the plant store's domain and nothing else: it knows no HTTP, no storage, no async
//! runtime and does no I/O. A [`Plant`] or [`NewPlant`] that exists is valid, because
//! the only way to one leads through the create rules:
//!
//! ```
//! use plant_domain::{NewPlant, UncheckedNewPlant};
//!
//! let unchecked = UncheckedNewPlant {
//!     id: 7,
//!     name: "Rosa × damascena".to_owned(),
//!     tag: Some("Rosaceae".to_owned()),
//! };
//! let new_plant = NewPlant::try_from(unchecked)?;
//!
//! assert_eq!(new_plant.plant().name(), "Rosa × damascena");
//! assert_eq!(
//!     serde_json::to_string(&new_plant)?,
//!     r#"{"id":7,"name":"Rosa × damascena","tag":"Rosaceae"}"#,
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Deserialization goes through the same door, so JSON that breaks a rule never becomes a value:
//!
//! ```
//! use plant_domain::NewPlant;
//!
//! let refusal = serde_json::from_str::<NewPlant>(r#"{"id":7,"name":""}"#).unwrap_err();
//! assert!(refusal.to_string().contains("name must have 1 to 255 characters"));
//! ```
//!
//! A change to a plant is a [`PlantPatch`], what someone looks for is a [`PlantFilter`], and both have rules
//! too. What breaks one becomes an [`Error`] with a number that programs branch on.
//!
//! There are no features. Of other crates, only the traits of serde are in the interface.

#![forbid(unsafe_code)]

mod error;
mod filter;
mod patch;
mod plant;
mod plant_id;
mod rules;

pub use error::{Error, error_number};
pub use filter::{PlantFilter, UncheckedPlantFilter, fold_name};
pub use patch::{PlantPatch, TagPatch, UncheckedPlantPatch};
pub use plant::{NewPlant, Plant, UncheckedNewPlant, UncheckedPlant};
pub use plant_id::{NotAPlantId, PlantId};
pub use rules::{Member, NAME_MAX_CHARACTERS, Rule, TAG_MAX_CHARACTERS, Violation, Violations};

/// The examples of the README, which are tested as these here are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
