//! Where a request ends (RFC 9112, RFC 9110): neither plantd alone nor plantd behind a proxy, which shares its
//! connections among clients, takes a part of one request for another one.

mod cases;
mod direct;
mod limits;
mod proxy;
mod store;
