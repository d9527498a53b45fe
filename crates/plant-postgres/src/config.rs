//! Where the plants are, and what may be used to come to them.

use std::num::NonZeroUsize;

use rustls::ClientConfig;

use crate::address::PostgresUrl;
use crate::statements::SchemaName;
use plant_store::DEFAULT_KEEP_EVENTS;

/// How many sessions with PostgreSQL a repository has at most for reading, unless something else is said.
pub const DEFAULT_READING_SESSIONS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Where the plants are, and what may be used to come to them.
///
/// ```
/// use plant_postgres::PostgresConfig;
/// use plant_store::DEFAULT_KEEP_EVENTS;
///
/// let config = PostgresConfig::new("postgres://plantd@localhost/plants?sslmode=disable".parse()?);
/// assert_eq!(config.keep_events, DEFAULT_KEEP_EVENTS);
/// assert_eq!(config.schema.to_string(), "plantd");
/// # Ok::<(), plant_postgres::NotAPostgresUrl>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// Where PostgreSQL is, and as whom.
    pub url: PostgresUrl,
    /// The schema of the tables.
    pub schema: SchemaName,
    /// How TLS is spoken. Without it, a URL with `sslmode=require` cannot be used, and one with `prefer`, which it has
    /// unless it says otherwise, sends the password and the plants as everybody on the way can read them.
    pub tls: Option<ClientConfig>,
    /// How many of the newest events are kept at least. Up to one in a hundred more may be, and the rest of a group's.
    pub keep_events: u64,
    /// How many sessions there are at most for reading, next to
    /// [`WRITING_SESSIONS`](crate::WRITING_SESSIONS).
    pub reading_sessions: NonZeroUsize,
}

impl PostgresConfig {
    /// What is at a URL, without TLS, and with everything else as it is by default.
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
