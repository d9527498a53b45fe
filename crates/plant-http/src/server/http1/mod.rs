pub(crate) mod connection;
pub(crate) mod framing;
pub(crate) mod pipeline;
pub(crate) mod request_end;
