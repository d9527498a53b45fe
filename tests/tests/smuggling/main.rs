//! Request smuggling (RFC 9112, RFC 9110): plantd never takes a part of one request for another, alone or behind a
//! proxy that shares its connections among clients.

mod cases;
mod direct;
mod limits;
mod proxy;
mod store;
