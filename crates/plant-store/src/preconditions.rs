//! Preconditions on a plant (RFC 9110, section 13.1).

use std::fmt;

use crate::Revision;

/// Conditions on the current plant, checked atomically with the change (RFC 9110, section 13.1). The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// There must be a plant with one of these revisions.
    pub if_match: Option<Revisions>,
    /// There must be no plant with one of these revisions.
    pub if_none_match: Option<Revisions>,
}

/// A set of revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revisions {
    /// Every revision.
    Any,
    /// These revisions; may be empty.
    OneOf(Vec<Revision>),
}

/// A failed condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// [`Preconditions::if_match`].
    IfMatch,
    /// [`Preconditions::if_none_match`].
    IfNoneMatch,
}

impl Preconditions {
    /// Checks the conditions against the current revision (`None` when there is no plant), in the order of RFC 9110,
    /// section 13.2.2.
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
    /// The name of the header.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::IfMatch => "If-Match",
            Self::IfNoneMatch => "If-None-Match",
        })
    }
}
