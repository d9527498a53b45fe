//! Where a request ends (RFC 9112, RFC 9110): whatever is sent, nobody takes a part of one request for
//! another one, neither plantd alone nor behind a proxy that shares its connections among clients.

mod cases;
mod direct;
mod limits;
mod proxy;
mod store;
