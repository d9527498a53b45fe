//! One of several servers on the same PostgreSQL.

use plantd_tests::{Client, Launch, TestServer, wait_until};
use test_postgres::Database;

/// A server whose sessions with PostgreSQL have a name of their own.
pub(super) struct Replica {
    pub(super) server: TestServer,
    /// The name of its sessions, new for each process.
    sessions: String,
}

impl Replica {
    pub(super) fn start(url: &str, schema: &str) -> Self {
        let sessions = new_name(schema);
        let server = TestServer::start_with(launch(url, schema, &sessions));
        Self { server, sessions }
    }

    pub(super) fn client(&self) -> Client {
        self.server.client()
    }

    /// Whether `/readyz` says that the server takes writes.
    pub(super) fn is_ready(&self) -> bool {
        let answer = self.client().get("/readyz");
        if answer.status != 200 {
            answer.assert_error(503, 5003);
        }
        answer.status == 200
    }

    /// How many of its sessions wait for a synchronous standby, directly or for a lock: of two sessions that write
    /// one counter, one waits for the other.
    pub(super) fn count_waiting_sessions(&self, database: &Database) -> usize {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' \
             AND (wait_event = 'SyncRep' OR wait_event_type = 'Lock')",
            self.sessions
        );
        database.query(&count).parse().expect("a number")
    }

    /// Kills it, and waits until PostgreSQL has ended its sessions.
    pub(super) fn kill(&mut self, database: &Database) {
        self.server.kill();
        let left = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'",
            self.sessions
        );
        wait_until("the sessions of a killed server to end", || database.query(&left) == "0");
    }

    pub(super) fn restart(&mut self, url: &str, schema: &str) {
        self.sessions = new_name(schema);
        self.server.restart_with(launch(url, schema, &self.sessions));
    }
}

/// SQL for the sessions that wait for a synchronous standby, of servers whose session names begin like this.
pub(super) fn waiting_sessions(name: &str) -> String {
    format!(
        "FROM pg_stat_activity WHERE application_name LIKE '{name}%' AND wait_event = 'SyncRep'"
    )
}

/// The schema, by which tests find the sessions of all servers, and a unique suffix.
fn new_name(schema: &str) -> String {
    format!("{schema}_{:08x}", fastrand::u32(..))
}

fn launch(url: &str, schema: &str, sessions: &str) -> Launch {
    Launch::new().postgres(&format!("{url}?application_name={sessions}"), schema)
}
