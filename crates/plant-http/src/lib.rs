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
mod audit;
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod benches;
mod errors;
mod exchange;
mod extract;
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod openapi;
mod request_context;
mod routes;
mod server;

pub use access::cors::CorsOrigin;
pub use access::token::{ENVIRONMENT_TOKEN_MIN_CHARACTERS, TOKEN_PREFIX, Token};
pub use access::token_record::{Scope, TOKEN_NAME_MAX_CHARACTERS, TokenName, TokenRecord};
pub use access::tokens::Tokens;
pub use extract::body::{BODY_DEADLINE, BODY_IDLE_DEADLINE, BODY_MAX_BYTES};
pub use extract::entity_tag::ENTITY_TAGS_MAX;
pub use extract::idempotency_key::IDEMPOTENCY_KEY_MAX_CHARACTERS;
pub use extract::parameters::{LIMIT_DEFAULT, LIMIT_MAX};
pub use extract::rows::{ExportCheck, ROW_MAX_BYTES, RowCounter};
pub use extract::transfer_format::{
    ImportFormat, TransferFormat, UnknownImportFormat, UnknownTransferFormat,
};
pub use handlers::import::{FailedRow, ImportReport, REPORT_MAX_ERRORS, way_to_go_on};
pub use handlers::plants::TOTAL_COUNT_HEADER;
pub use openapi::{API_VERSION, openapi_document};
pub use routes::{RouteInfo, routes};
pub use server::http1::request_end::{
    CHUNK_OVERHEAD_MAX_BYTES, HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES,
};
pub use server::listener::DrainTimedOut;
pub use server::listening_socket::ListeningSocket;
pub use server::tls::TlsCertificate;
pub use server::{Drain, PlantService, serve};

/// The examples of the README, which are tested as these here are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
