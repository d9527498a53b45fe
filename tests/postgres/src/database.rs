//! A database on any server of PostgreSQL.

use std::env;
use std::process;
use std::sync::OnceLock;

use crate::cluster::Cluster;
use crate::programs;

/// The environment variable with the URL of the database that all tests share.
pub const SHARED_URL: &str = "TEST_POSTGRES_URL";

/// A database, queried by psql.
#[derive(Clone, Debug)]
pub struct Database {
    url: String,
}

impl Database {
    /// The database with this URL.
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned() }
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs statements, several of them as one transaction, and returns the rows: one per line, with `|` between the
    /// columns.
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        self.try_query(sql).unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    /// Like [`Self::query`].
    ///
    /// # Errors
    ///
    /// When the server is unreachable or refuses a statement. The error is psql's message.
    pub fn try_query(&self, sql: &str) -> Result<String, String> {
        let mut psql = programs::command("psql");
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]);
        programs::run_or_say_why(psql.args(["-d", &self.url, "-c", sql]))
    }
}

/// The database for tests with a schema of their own: the one that [`SHARED_URL`] names, or one of this process.
pub fn shared() -> &'static Database {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static SHARED: OnceLock<Database> = OnceLock::new();
    SHARED.get_or_init(|| match env::var(SHARED_URL) {
        Ok(url) => Database::at(&url),
        Err(_) => CLUSTER.get_or_init(Cluster::start).database().clone(),
    })
}

/// A name for a schema that no process has used.
pub fn fresh_schema_name() -> String {
    format!("test_{:x}_{:016x}", process::id(), fastrand::u64(..))
}
