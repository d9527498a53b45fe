//! What handlers take, as extractors. A handler's signature says all that it asks of a request.

pub(crate) mod body;
pub(crate) mod caller;
pub(crate) mod entity_tag;
pub(crate) mod idempotency_key;
pub(crate) mod import_parameters;
pub(crate) mod json;
pub(crate) mod media_type;
mod members;
pub(crate) mod mount;
pub(crate) mod query;
pub(crate) mod rows;
pub(crate) mod target;
pub(crate) mod transfer_format;
