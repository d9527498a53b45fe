//! The configuration of a repository.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use plant_store::EventRetention;
use rustls::ClientConfig;

use crate::address::PostgresUrl;

/// The default schema of the tables.
pub const DEFAULT_SCHEMA: &str = "plantd";

/// The default of [`PostgresConfig::reading_sessions`].
pub const DEFAULT_READING_SESSIONS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// The configuration of a repository.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// The server, the database, and the user.
    pub url: PostgresUrl,
    /// The schema of the tables.
    pub schema: SchemaName,
    /// The TLS configuration. Without one, a URL with `sslmode=require` cannot be used, and with `prefer`, the default,
    /// the password and the plants are sent in clear text.
    pub tls: Option<ClientConfig>,
    /// The events to keep at least. Up to 1 % more may be kept, plus the rest of a group.
    pub retention: EventRetention,
    /// The most sessions for reading, besides [`WRITING_SESSIONS`](crate::WRITING_SESSIONS), and not fewer than
    /// [`FEWEST_READING_SESSIONS`](crate::FEWEST_READING_SESSIONS). Half of them may hold a
    /// [snapshot](plant_store::PlantRepository::snapshot).
    pub reading_sessions: NonZeroUsize,
}

impl PostgresConfig {
    /// The plants at a URL, without TLS, and with the defaults for everything else.
    #[must_use]
    pub fn new(url: PostgresUrl) -> Self {
        Self {
            url,
            schema: SchemaName::default(),
            tls: None,
            retention: EventRetention::default(),
            reading_sessions: DEFAULT_READING_SESSIONS,
        }
    }
}

/// PostgreSQL truncates longer names.
const NAME_MAX_BYTES: usize = 63;

/// The name of a PostgreSQL schema. It needs no escaping in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaName(String);

/// The text is not a usable schema name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a schema's name is 1 to {NAME_MAX_BYTES} lower-case letters, digits and underscores; it must not begin with a \
     digit or pg_"
)]
pub struct NotASchemaName;

impl Default for SchemaName {
    fn default() -> Self {
        Self(DEFAULT_SCHEMA.to_owned())
    }
}

impl FromStr for SchemaName {
    type Err = NotASchemaName;

    fn from_str(name: &str) -> Result<Self, NotASchemaName> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let is_name = name.len() <= NAME_MAX_BYTES
            && name.bytes().next().is_some_and(is_letter)
            && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
            // PostgreSQL reserves names with this prefix.
            && !name.starts_with("pg_");
        if is_name { Ok(Self(name.to_owned())) } else { Err(NotASchemaName) }
    }
}

impl SchemaName {
    /// The name as SQL, quoted because it may be a keyword.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_end_a_statement_is_not_a_schema_name() {
        for name in ["plantd", "_", "a1", &"a".repeat(63)] {
            assert!(name.parse::<SchemaName>().is_ok(), "{name}");
        }
        for name in ["", "1a", "A", "a b", "a\"", "a'", "a.b", "a;", "ä", "pg_a", &"a".repeat(64)]
        {
            assert_eq!(name.parse::<SchemaName>(), Err(NotASchemaName), "{name}");
        }
    }
}
