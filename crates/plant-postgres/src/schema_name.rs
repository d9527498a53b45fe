//! The name of the schema that holds the tables.

use std::fmt;
use std::str::FromStr;

/// The schema of the tables, unless another one is named.
pub const DEFAULT_SCHEMA: &str = "plantd";

/// The most bytes that PostgreSQL keeps of a name.
const NAME_MAX_BYTES: usize = 63;

/// The name of a PostgreSQL schema. It needs no escaping in SQL.
///
/// ```
/// use plant_postgres::SchemaName;
///
/// assert_eq!("garden_2".parse::<SchemaName>()?.to_string(), "garden_2");
/// assert!("garden\"; --".parse::<SchemaName>().is_err());
/// # Ok::<(), plant_postgres::NotASchemaName>(())
/// ```
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
            // PostgreSQL reserves these names.
            && !name.starts_with("pg_");
        if is_name { Ok(Self(name.to_owned())) } else { Err(NotASchemaName) }
    }
}

impl SchemaName {
    /// The name as SQL: quoted, because it may be an SQL keyword.
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
    fn a_name_that_could_end_a_statement_is_no_name_of_a_schema() {
        for name in ["plantd", "_", "a1", &"a".repeat(63)] {
            assert!(name.parse::<SchemaName>().is_ok(), "{name}");
        }
        for name in ["", "1a", "A", "a b", "a\"", "a'", "a.b", "a;", "ä", "pg_a", &"a".repeat(64)]
        {
            assert_eq!(name.parse::<SchemaName>(), Err(NotASchemaName), "{name}");
        }
    }
}
