//! The OpenAPI document: what it says, whether the server keeps to it, and the clients that others generate from it.

mod clients;
mod document;
mod schemathesis;
