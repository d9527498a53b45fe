//! How a repository reaches its plants.

use std::num::NonZeroUsize;

use plant_store::DEFAULT_KEEP_EVENTS;
use rustls::ClientConfig;

use crate::address::PostgresUrl;
use crate::schema_name::SchemaName;

/// How many sessions a repository opens at most for reading, unless the configuration says otherwise.
pub const DEFAULT_READING_SESSIONS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// How a repository reaches its plants.
///
/// ```
/// use plant_postgres::PostgresConfig;
///
/// let config = PostgresConfig::new("postgres://plantd@localhost/plants?sslmode=disable".parse()?);
/// assert_eq!(config.schema.to_string(), "plantd");
/// # Ok::<(), plant_postgres::NotAPostgresUrl>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// The server, the database, and the user.
    pub url: PostgresUrl,
    /// The schema of the tables.
    pub schema: SchemaName,
    /// The TLS configuration. Without one, a URL with `sslmode=require` cannot be used, and one with `prefer`, the default,
    /// sends the password and the plants in clear text.
    pub tls: Option<ClientConfig>,
    /// How many of the newest events are kept at least. Up to one in a hundred more may be, and the rest of a group.
    pub keep_events: u64,
    /// How many sessions are opened at most for reading, besides [`WRITING_SESSIONS`](crate::WRITING_SESSIONS).
    pub reading_sessions: NonZeroUsize,
}

impl PostgresConfig {
    /// The plants at a URL, without TLS, and with defaults for the rest.
    #[must_use]
    pub fn new(url: PostgresUrl) -> Self {
        Self {
            url,
            schema: SchemaName::default(),
            tls: None,
            keep_events: DEFAULT_KEEP_EVENTS,
            reading_sessions: DEFAULT_READING_SESSIONS,
        }
    }
}
