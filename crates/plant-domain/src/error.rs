//! The error that a client sees.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Violations;

/// The numbers of those errors that come from the plants themselves, whatever carries them.
///
/// Transports have further numbers of their own, for what only they know.
pub mod error_number {
    /// What was sent has not the shape of a plant: it is no object, or a member is missing,
    /// stands twice, or has the wrong type.
    pub const WRONG_SHAPE: i32 = 1004;
    /// A member breaks a rule; see [`Violations`](crate::Violations).
    pub const RULE_BROKEN: i32 = 1005;
    /// The id of the plant to create is taken.
    pub const ID_TAKEN: i32 = 3001;
    /// There is no plant with this id.
    pub const NO_SUCH_PLANT: i32 = 3002;
    /// The plant is not, or no longer, in the state that a change asks for; nothing changed.
    pub const PRECONDITION_FAILED: i32 = 3003;
}

/// The Error resource of the specification (section "Error"): `{"error": int32, "message": text}`.
///
/// ```
/// use plant_domain::{Error, error_number};
///
/// let error = Error {
///     error: error_number::ID_TAKEN,
///     message: "a plant with id 7 exists already".to_owned(),
/// };
/// assert_eq!(
///     serde_json::to_string(&error)?,
///     r#"{"error":3001,"message":"a plant with id 7 exists already"}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// What went wrong, as a number that programs branch on.
    pub error: i32,
    /// What went wrong and what to do about it, for people.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (error {})", self.message, self.error)
    }
}

impl std::error::Error for Error {}

impl From<Violations> for Error {
    fn from(violations: Violations) -> Self {
        Self { error: error_number::RULE_BROKEN, message: violations.to_string() }
    }
}
