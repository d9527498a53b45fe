//! Taking many plants at once.

use std::fmt;
use std::str::FromStr;

#[cfg(doc)]
use crate::StoreError;
use crate::StoreFailure;

/// What to do with a plant whose id is taken. As a word it is `error`, `skip` or `replace`.
///
/// ```
/// use plant_store::OnConflict;
///
/// assert_eq!("skip".parse(), Ok(OnConflict::Skip));
/// assert_eq!(OnConflict::default().to_string(), "error");
/// ```
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

/// The word names nothing that can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be error, skip or replace")]
pub struct UnknownOnConflict;

/// What became of one plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// Its id was free: it was created.
    Created,
    /// It is in the place of the one that was there, from which it may not differ at all.
    Replaced,
    /// Its id was taken, so it was left out, as [`OnConflict::Skip`] says.
    Skipped,
    /// Its id was taken, and it was refused, as [`OnConflict::Error`] says.
    IdTaken,
    /// The database refuses it, as [`StoreError::Refused`] says.
    Refused(StoreFailure),
}
