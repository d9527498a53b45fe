//! The options of PostgreSQL, and `plantd verify`.

pub(crate) mod postgres;
pub(crate) mod verify;
