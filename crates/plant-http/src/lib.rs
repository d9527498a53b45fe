//! A plant store over HTTP, as an actix-web service: mount it in an application, or serve it alone, as `plantd` does.
//!
//! - [`PlantService`] joins a repository with the tokens for it. [`PlantService::scope`] mounts it in an application.
//! - [`serve`] runs it on a [`ListeningSocket`], with a [`TlsCertificate`] or without, until its `stop` future is
//!   ready.
//! - [`Tokens`] are the valid tokens. A [`Token`] is shown once, and its [`TokenRecord`] is stored.
//! - [`openapi_document`] describes the service, and [`limits`] its limits.
//! - [`transfer`] is for clients that list, import, export, back up, or follow events.
//!
//! A request arrives through `server`, passes `middleware` (id, gate, headers, log), is matched in `routes`, taken apart
//! by `extract`, and answered by `handlers`. Every error is a row in `errors`.
//!
//! # Other crates in this interface
//!
//! Repositories come from [`plant_store`], plants and their errors from [`plant_domain`], times from jiff 0.2.
//! [`PlantService::scope`] is a scope of actix-web 4, and [`serve`] runs in an actix system.

#![forbid(unsafe_code)]

mod access;
mod answers;
mod decimal;
mod errors;
mod extract;
mod handlers;
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod internal;
pub mod limits;
mod metrics;
mod middleware;
mod openapi;
mod pages;
mod route_table;
mod routes;
mod serve_error;
mod server;
mod service;

pub use access::cors::{CorsOrigin, CorsOriginError};
pub use access::token::{Token, TokenError};
pub use access::token_record::{Scope, TokenName, TokenRecord};
pub use access::tokens::Tokens;
pub use handlers::events::followers::DEFAULT_MAX_FOLLOWERS;
pub use handlers::events::shown_event::{ShownEvent, events_with_unchanged_plants};
pub use handlers::webhooks::{WebhookError, WebhookState, WebhookStatus, WebhookStatuses};
pub use routes::openapi_document;
pub use serve_error::ServeError;
pub use server::listening_socket::ListeningSocket;
pub use server::tls::{TlsCertificate, UnusableCertificate};
pub use server::{MONITORING_CONNECTIONS, ServerConfig};
pub use service::{PlantService, serve, serve_monitoring};

/// For clients that list, import, export, back up, or follow events.
pub mod transfer {
    pub use crate::errors::NO_BACKUPS;
    pub use crate::extract::event_request::{EventStart, NotAnEventStart};
    pub use crate::extract::rows::{ReadRow, RowReader, row_reader};
    pub use crate::extract::transfer_format::{
        ExportFormat, ImportFormat, TransferFormat, UnknownFormat,
    };
    pub use crate::handlers::backup::BACKUP_MEDIA_TYPE;
    pub use crate::handlers::events::EVENTS_AFTER_HEADER;
    pub use crate::handlers::history::HISTORY_COMPLETE_HEADER;
    pub use crate::handlers::import_report::{FailedRow, ImportReport, way_to_go_on};
    pub use crate::handlers::plants::TOTAL_COUNT_HEADER;
}

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
