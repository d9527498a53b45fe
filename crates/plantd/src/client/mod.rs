//! A client of a running server: where the server is, the token to show it, and what its answers mean.

pub(crate) mod connection_problem;
pub(crate) mod remote;
mod server_url;
mod token;
