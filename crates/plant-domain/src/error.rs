//! The error that a client sees.

use serde::{Deserialize, Serialize};

use crate::Violations;

/// The numbers of the errors that come from the plants themselves. Transports add numbers of their own.
pub mod error_number {
    /// The input does not have the shape of a plant: it is not an object, or a member is missing, appears more than
    /// once, or has the wrong type.
    pub const WRONG_SHAPE: i32 = 1004;
    /// A member breaks a rule; see [`Violations`](crate::Violations).
    pub const RULE_BROKEN: i32 = 1005;
    /// The id of the plant to create is taken.
    pub const ID_TAKEN: i32 = 3001;
    /// There is no plant with this id.
    pub const NO_SUCH_PLANT: i32 = 3002;
    /// The plant does not meet a precondition of the change; nothing changed.
    pub const PRECONDITION_FAILED: i32 = 3003;
}

/// The Error resource of the specification (section "Error"): `{"error": int32, "message": text}`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message} (error {error})")]
pub struct Error {
    /// What went wrong, as a number that programs branch on.
    pub error: i32,
    /// What went wrong and what to do about it, for people.
    pub message: String,
}

impl From<Violations> for Error {
    fn from(violations: Violations) -> Self {
        Self { error: error_number::RULE_BROKEN, message: violations.to_string() }
    }
}
