//! The errors of requests: a table of all of them, and the answers that report them.

mod failure;
mod table;

pub(crate) use self::failure::Failure;
pub use self::table::NO_BACKUPS;
pub(crate) use self::table::{
    ErrorHeader, ErrorNumber, ErrorRow, INVALID_TOKEN_CHALLENGE, late_body, no_such_path,
    too_large, wrong_content_type,
};
