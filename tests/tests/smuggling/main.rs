//! Request smuggling (RFC 9112, RFC 9110): plantd, alone or behind a proxy that shares its connections among
//! clients, never takes a part of one request for another request.

mod cases;
mod direct;
mod limits;
mod proxy;
mod store;
