//! The identification number of a plant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A plant's identification number: any int64 (specification, section "NewPlant").
///
/// Its text is the canonical decimal form and no other, so that a plant has one URL:
///
/// ```
/// use plant_domain::PlantId;
///
/// assert_eq!("-7".parse(), Ok(PlantId::from(-7)));
/// assert_eq!(PlantId::from(-7).to_string(), "-7");
/// for other_form in ["+7", "007", "-0", " 7", "7.0", "9223372036854775808", ""] {
///     assert!(other_form.parse::<PlantId>().is_err(), "{other_form:?}");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlantId(i64);

/// The text is not the canonical decimal form of an int64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is an int64 in plain decimal form, such as 7 or -7, without `+` or leading zeros")]
pub struct NotAPlantId;

impl PlantId {
    /// The least id.
    pub const MIN: Self = Self(i64::MIN);

    /// The greatest id.
    pub const MAX: Self = Self(i64::MAX);

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The id after this one, unless it is the greatest.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// The id before this one, unless it is the least.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl From<i64> for PlantId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

impl fmt::Display for PlantId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for PlantId {
    type Err = NotAPlantId;

    fn from_str(text: &str) -> Result<Self, NotAPlantId> {
        let id: i64 = text.parse().map_err(|_| NotAPlantId)?;
        // `i64::from_str` also takes `+7`, `007` and `-0`.
        if id.to_string() == text { Ok(Self(id)) } else { Err(NotAPlantId) }
    }
}
