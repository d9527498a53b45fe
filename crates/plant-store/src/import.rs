//! Imports: many plants at once.

use std::fmt;
use std::str::FromStr;

#[cfg(doc)]
use crate::StoreError;
use crate::StoreFailure;

/// What to do with a plant whose id is taken. Written as `error`, `skip` or `replace`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Refuse it.
    #[default]
    Error,
    /// Keep the stored plant.
    Skip,
    /// Replace the stored plant.
    Replace,
}

impl fmt::Display for OnConflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Error => "error",
            Self::Skip => "skip",
            Self::Replace => "replace",
        })
    }
}

impl FromStr for OnConflict {
    type Err = UnknownOnConflict;

    fn from_str(text: &str) -> Result<Self, UnknownOnConflict> {
        let ways = [Self::Error, Self::Skip, Self::Replace];
        ways.into_iter().find(|way| way.to_string() == text).ok_or(UnknownOnConflict)
    }
}

/// The text is not an [`OnConflict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be error, skip or replace")]
pub struct UnknownOnConflict;

/// The outcome of one plant of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The id was free: the plant was created.
    Created,
    /// The plant replaced the stored one, even if both are equal.
    Replaced,
    /// The id was taken, and the plant was skipped ([`OnConflict::Skip`]).
    Skipped,
    /// The id was taken, and the plant was refused ([`OnConflict::Error`]).
    IdTaken,
    /// The database refuses the plant ([`StoreError::Refused`]).
    Refused(StoreFailure),
}
