//! A client of a running server.

pub(crate) mod backoff;
pub(crate) mod connection_problem;
pub(crate) mod health;
pub(crate) mod plant_pages;
pub(crate) mod remote;
pub(crate) mod server_url;
mod unix_transport;
