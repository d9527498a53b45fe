pub(crate) mod body;
pub(crate) mod entity_tag;
pub(crate) mod idempotency_key;
pub(crate) mod parameters;
pub(crate) mod rows;
pub(crate) mod transfer_format;
pub(crate) mod wire;
