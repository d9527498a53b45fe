//! What handlers take, as extractors: a handler's signature says what it needs from a request.

pub(crate) mod body;
pub(crate) mod entity_tag;
pub(crate) mod head;
pub(crate) mod idempotency_key;
pub(crate) mod json;
pub(crate) mod media_type;
mod members;
pub(crate) mod query;
pub(crate) mod rows;
pub(crate) mod target;
pub(crate) mod transfer_format;
