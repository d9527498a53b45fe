//! A plant store over HTTP, as one service that `plantd` runs and that others may run too.
//!
//! - [`serve`] runs a [`PlantService`] on a socket until it is told to stop: a TCP one, or a [`UnixSocket`],
//!   with a [`TlsCertificate`] or without. Its example is a whole server.
//! - [`Tokens`] says who may do what; a [`TokensFile`] keeps them.
//! - [`openapi_document`] says what is served.
//! - [`ImportReport`], [`ExportCheck`], [`RowCounter`], [`TransferFormat`] and the limits are for those who write clients.
//!
//! The walk of one request: [`server`](serve) takes the connection → `exchange` numbers the request,
//! checks its token before anything of its body is read, and logs its end → `routes` matches →
//! a handler converts, calls the repository, converts back → `failure` says how errors look.
//!
//! # Features
//!
//! - `plantd`, on by default: the program, and the dependencies that it alone needs. The library is the same
//!   without it.
//! - `fault-points`: lets the tests of this project stop the process, or make it panic, at named places of
//!   [`plant_store`]. It belongs in no release.
//! - `benches`: the module of that name, what the benchmarks of this project measure.
//! - `fuzzing`: the module of that name, what reads bytes from clients, for the fuzzer of this project.
//!
//! # Of other crates
//!
//! The repository is one of [`plant_store`], and an import's errors are those of [`plant_domain`]. Times are
//! those of jiff 0.2. What made something fail, which is for people to read, is an error of anyhow 1. Nothing of
//! actix-web or rustls is in the interface, but [`serve`] runs in an actix system.

#![forbid(unsafe_code)]

mod access;
mod errors;
mod extract;
mod handlers;
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod internal;
pub mod limits;
mod middleware;
mod openapi;
mod routes;
mod serve_error;
mod server;
mod service;

pub use access::cors::{CorsOrigin, CorsOriginError};
pub use access::token::{Token, TokenError};
pub use access::token_record::{Scope, TokenName, TokenRecord};
pub use access::tokens::Tokens;
pub use routes::openapi_document;
pub use serve_error::ServeError;
pub use server::ServerConfig;
pub use server::listening_socket::ListeningSocket;
pub use server::tls::{TlsCertificate, UnusableCertificate};
pub use service::{PlantService, serve};

/// For those who write clients of an import or an export.
pub mod transfer {
    pub use crate::extract::rows::{ReadRow, RowReader};
    pub use crate::extract::transfer_format::{
        ImportFormat, TransferFormat, UnknownImportFormat, UnknownTransferFormat,
    };
    pub use crate::handlers::import_report::{FailedRow, ImportReport, way_to_go_on};
    pub use crate::handlers::plants::TOTAL_COUNT_HEADER;
}

/// The examples of the README, which are tested as these here are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
