//! The OpenAPI document: its content, whether the server conforms to it, and the clients that others generate from
//! it.

mod clients;
mod document;
mod schemathesis;
