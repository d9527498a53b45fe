//! A database user with privileges on tables that another user owns.

use test_postgres::{Database, fresh_schema_name};

/// The grants that `plantd migrate --help` shows for the server's user, with SCHEMA and USER as placeholders.
const GRANTS: &str = "GRANT USAGE ON SCHEMA SCHEMA TO USER; \
     GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA SCHEMA TO USER; \
     GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA SCHEMA TO USER";

/// A database user, which is dropped with this.
pub(crate) struct User {
    pub(crate) name: String,
    database: Database,
}

impl User {
    pub(crate) fn new(database: &Database) -> Self {
        let name = fresh_schema_name();
        database.query(&format!("CREATE ROLE {name}"));
        Self { name, database: database.clone() }
    }

    /// The URL for sessions as this user.
    pub(crate) fn url(&self) -> String {
        let url = self.database.url();
        let sign = if url.contains('?') { '&' } else { '?' };
        format!("{url}{sign}options=-c%20role%3D{}", self.name)
    }

    pub(crate) fn grant_tables(&self, schema: &str) {
        let grants = GRANTS.replace("SCHEMA SCHEMA", &format!("SCHEMA {schema}"));
        self.database.query(&grants.replace("USER", &self.name));
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let name = &self.name;
        // Fails if the server has gone, and the user with it.
        let _ = self.database.try_query(&format!("DROP OWNED BY {name}; DROP ROLE {name}"));
    }
}
