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
    /// Keep the plant that is there.
    Skip,
    /// Replace the plant that is there.
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

/// The text is no [`OnConflict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be error, skip or replace")]
pub struct UnknownOnConflict;

/// The outcome of one plant of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// Its id was free: it was created.
    Created,
    /// It replaced the existing plant, which may have been equal.
    Replaced,
    /// Its id was taken, and it was skipped ([`OnConflict::Skip`]).
    Skipped,
    /// Its id was taken, and it was refused ([`OnConflict::Error`]).
    IdTaken,
    /// The database refuses it ([`StoreError::Refused`]).
    Refused(StoreFailure),
}
