//! What a plant has to be for a change to be made, or for a read to be worth its while.

use std::fmt;

use crate::Revision;

/// Conditions on the plant as it is when its turn comes (RFC 9110, section 13.1). Without any, every
/// state will do.
///
/// ```
/// use plant_store::{Precondition, Preconditions, Revision, Revisions};
///
/// let seen = Revision::from(7);
/// let unchanged =
///     Preconditions { if_match: Some(Revisions::OneOf(vec![seen])), ..Preconditions::default() };
/// assert_eq!(unchanged.check(Some(seen)), Ok(()));
/// assert_eq!(unchanged.check(Some(Revision::from(8))), Err(Precondition::IfMatch));
///
/// let new = Preconditions { if_none_match: Some(Revisions::Any), ..Preconditions::default() };
/// assert_eq!(new.check(None), Ok(()));
/// assert_eq!(new.check(Some(seen)), Err(Precondition::IfNoneMatch));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// There must be a plant, with one of these revisions.
    pub if_match: Option<Revisions>,
    /// There must be no plant with one of these revisions.
    pub if_none_match: Option<Revisions>,
}

/// Some revisions of a plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revisions {
    /// Whatever revision a plant has.
    Any,
    /// These, which may be none.
    OneOf(Vec<Revision>),
}

/// A condition that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// [`Preconditions::if_match`].
    IfMatch,
    /// [`Preconditions::if_none_match`].
    IfNoneMatch,
}

impl Preconditions {
    /// Checks the conditions in the order of RFC 9110, section 13.2.2, against the revision that the
    /// plant has now; `None` when there is no plant.
    ///
    /// # Errors
    ///
    /// The first condition that does not hold.
    pub fn check(&self, current: Option<Revision>) -> Result<(), Precondition> {
        let is_one_of = |revisions: &Revisions| {
            current.is_some_and(|current| match revisions {
                Revisions::Any => true,
                Revisions::OneOf(revisions) => revisions.contains(&current),
            })
        };
        if self.if_match.as_ref().is_some_and(|wanted| !is_one_of(wanted)) {
            return Err(Precondition::IfMatch);
        }
        if self.if_none_match.as_ref().is_some_and(is_one_of) {
            return Err(Precondition::IfNoneMatch);
        }
        Ok(())
    }
}

impl fmt::Display for Precondition {
    /// As the header is called.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::IfMatch => "If-Match",
            Self::IfNoneMatch => "If-None-Match",
        })
    }
}
