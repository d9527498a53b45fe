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
