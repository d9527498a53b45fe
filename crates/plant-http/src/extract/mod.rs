//! The extractors of handlers: a handler's signature shows what it needs from a request.

pub(crate) mod batch;
pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod entity_tag;
pub(crate) mod event_request;
pub(crate) mod head;
pub(crate) mod idempotency_key;
pub(crate) mod json;
pub(crate) mod media_type;
mod members;
pub(crate) mod query;
pub(crate) mod rows;
mod spreadsheet;
pub(crate) mod target;
pub(crate) mod transfer_format;
