//! A plant store over HTTP, as an actix-web service: mount it in an application of yours, or serve it whole, as
//! `plantd` does.
//!
//! - [`PlantService`] is a repository and who may do what with it. [`PlantService::scope`] mounts it beside routes of
//!   yours.
//! - [`serve`] runs it on a [`ListeningSocket`], with a [`TlsCertificate`] or without, until it is told to stop. Its
//!   example is a whole server.
//! - [`Tokens`] are those in force; each is a [`Token`], of which a [`TokenRecord`] is kept.
//! - [`openapi_document`] says what is served, [`limits`] how much.
//! - [`transfer`] is for clients of an import or an export.
//!
//! A request comes in through `server`, passes `middleware` (its id, the gate, the headers of its answer, the log), is
//! matched in `routes`, taken apart by `extract`, and answered by `handlers`. What goes wrong is a row in `errors`.
//!
//! # Of other crates
//!
//! Repositories are those of [`plant_store`], plants and the errors that clients see those of [`plant_domain`]. Times
//! are those of jiff 0.2. [`PlantService::scope`] is a scope of actix-web 4, and [`serve`] runs in an actix system.

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
    pub use crate::extract::transfer_format::{ImportFormat, TransferFormat, UnknownFormat};
    pub use crate::handlers::import_report::{FailedRow, ImportReport, way_to_go_on};
    pub use crate::handlers::plants::TOTAL_COUNT_HEADER;
}

/// The examples of the README, which are tested as these here are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
