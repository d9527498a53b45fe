//! The stores that plantd opens: PostgreSQL by its options, and a data folder to verify.

pub(crate) mod postgres;
pub(crate) mod verify;
