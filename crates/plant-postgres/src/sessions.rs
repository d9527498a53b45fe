//! Connections to PostgreSQL: some for writing and some for reading, so that neither waits for the other.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio::time::timeout;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::PostgresConfig;
use crate::hosts::{self, Hosts, Warnings};

/// How long PostgreSQL may take to answer. Then the connection is given up.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a statement may take in the server, which ends it before anybody here gives up; but for `COMMIT`, which is
/// waited for there for ever.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(4);
const _: () = assert!(STATEMENT_TIMEOUT.as_secs() < ANSWER_TIMEOUT.as_secs());

/// How long a transaction may stand still: that of one who is gone holds nobody up for longer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// What every session begins with.
fn session_settings() -> String {
    let statement_timeout = STATEMENT_TIMEOUT.as_secs();
    let idle_timeout = IDLE_TIMEOUT.as_secs();
    // What is acknowledged is on the disk: of all the ways to commit, the one that does not wait for any disk is
    // overruled. Every statement goes along an index and stops where it has enough, whatever is known of a table: a
    // bitmap would collect all that there is.
    format!(
        "SET statement_timeout = '{statement_timeout}s'; \
         SET default_transaction_isolation = 'read committed'; \
         SET idle_in_transaction_session_timeout = '{idle_timeout}s'; \
         SELECT set_config('synchronous_commit', 'on', false) \
           WHERE current_setting('synchronous_commit') = 'off'; \
         SELECT set_config(name, 'off', false) FROM pg_settings \
           WHERE name IN \
             ('enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit')"
    )
}

/// For how long something is tried again, counted from the first try. The last one may come to its end later.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long one waits before the second try at most, in milliseconds, and before any other.
const FIRST_PAUSE_MS: u64 = 40;
const LONGEST_PAUSE_MS: u64 = 640;

/// Waits before the next try, after so many: longer each time, and for another time than others, lest they meet again.
pub(super) async fn pause(tries: u32) {
    let longest = FIRST_PAUSE_MS.saturating_mul(1 << tries.min(8)).min(LONGEST_PAUSE_MS);
    tokio::time::sleep(Duration::from_millis(fastrand::u64(2..longest))).await;
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// There is no connection, or no answer: nobody knows whether what was sent was done.
    #[error("PostgreSQL does not answer: {0}")]
    NoAnswer(String),
    /// PostgreSQL answers, but takes no connections or no writes now; nothing was written.
    #[error("PostgreSQL {0}")]
    Unavailable(String),
    /// It was taken back, and may well be done when it is tried again.
    #[error("PostgreSQL took it back: {0}")]
    Conflict(String),
    /// It was taken back because a prepared statement may no longer fit the tables. All statements have been
    /// forgotten since, so the next try prepares them again.
    #[error("PostgreSQL refused a statement that was prepared: {0}")]
    StaleStatement(String),
    /// PostgreSQL will refuse it again when it is tried again; nothing was written.
    #[error("PostgreSQL refused it: {0}")]
    Refused(String),
}

impl From<tokio_postgres::Error> for SessionError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(cause) = error.as_db_error() else {
            return Self::NoAnswer(format!("{:#}", anyhow::Error::from(error)));
        };
        let code = cause.code();
        let said = said(cause);
        let is_of_class = |classes: &[&str]| classes.contains(&&code.code()[..2]);
        // PostgreSQL ends the session with it, or does not know itself what it has done.
        let is_over = matches!(cause.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
            || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
            || is_of_class(&["08"]);
        let is_conflict = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
            // A statement that took too long had to wait for another one.
            SqlState::QUERY_CANCELED,
        ];
        let is_stale = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::INVALID_SQL_STATEMENT_NAME];
        if is_over {
            Self::NoAnswer(said)
        } else if is_conflict.contains(code) || is_own_unique_violation(cause) {
            Self::Conflict(said)
        // A disk that is full, a server that is about to stop, or one that is a standby by now.
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION || is_of_class(&["53", "57", "58"]) {
            Self::Unavailable(format!("takes no writes now: {said}"))
        } else if is_stale.contains(code) {
            Self::StaleStatement(said)
        // Only the check that all rows were written divides, and a function would be named as the place.
        } else if *code == SqlState::DIVISION_BY_ZERO && cause.where_().is_none() {
            Self::Refused(ROWS_MISSING.to_owned())
        } else {
            Self::Refused(said)
        }
    }
}

/// What it means that not all rows were written.
const ROWS_MISSING: &str = "a row was not written, as where a row of the table counters is missing (`plantd migrate` makes \
     missing ones and counts again), or a trigger, a rule or a policy leaves rows out";

fn said(cause: &DbError) -> String {
    format!("{} ({})", cause.message(), cause.code().code())
}

/// Whether an id, or the number of a block or a group, is taken. A unique index that somebody else has made is not ours.
fn is_own_unique_violation(cause: &DbError) -> bool {
    let is_own = |name: &str| name.starts_with("plants_pkey") || name.starts_with("events_");
    *cause.code() == SqlState::UNIQUE_VIOLATION && cause.constraint().is_none_or(is_own)
}

impl From<PoolError> for SessionError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                not_let_in(error)
            }
            error => Self::NoAnswer(error.to_string()),
        }
    }
}

/// Why there is no connection. Any cause may be mended meanwhile, so a new try is worth it.
fn not_let_in(error: tokio_postgres::Error) -> SessionError {
    if let Some(cause) = error.as_db_error() {
        return refuses_connection(&said(cause), advice_about(cause.code()));
    }
    // Without a source, the client has given up waiting.
    let source = error.source();
    let network = source.map(<dyn Error>::downcast_ref::<io::Error>);
    let is_unanswered = network.is_none_or(|cause| cause.is_some_and(is_of_the_network));
    let is_read_only =
        network.flatten().is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied);
    let said = format!("{:#}", anyhow::Error::from(error));
    if is_unanswered {
        SessionError::NoAnswer(said)
    } else if is_read_only {
        refuses_connection(
            &said,
            "name its primary in the URL, or turn default_transaction_read_only off",
        )
    } else if said.contains("password missing") {
        refuses_connection(&said, "put the password into the URL")
    } else {
        refuses_connection(&said, "")
    }
}

/// What to do about a connection that is refused with this code.
fn advice_about(code: &SqlState) -> &'static str {
    match *code {
        SqlState::INVALID_CATALOG_NAME => "create the database, or name another one in the URL",
        SqlState::TOO_MANY_CONNECTIONS => {
            "raise max_connections of the server, or lower --postgres-connections"
        }
        _ if code.code().starts_with("28") => {
            "check the user and the password in the URL, and pg_hba.conf of the server"
        }
        _ => "",
    }
}

fn refuses_connection(said: &str, advice: &str) -> SessionError {
    let sign = if advice.is_empty() { "" } else { "; " };
    SessionError::Unavailable(format!("refuses the connection: {said}{sign}{advice}"))
}

/// Whether the network failed. Every other error comes from what the server said.
fn is_of_the_network(cause: &io::Error) -> bool {
    cause.raw_os_error().is_some()
        || [io::ErrorKind::TimedOut, io::ErrorKind::UnexpectedEof].contains(&cause.kind())
}

/// Sessions of one kind.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    pool: Pool,
    reachable: Arc<Reachable>,
    /// How often one of them was warned.
    pub(super) warnings: Warnings,
}

/// Whether the last try to come to PostgreSQL worked, so that the log tells of each change once.
#[derive(Debug)]
pub(super) struct Reachable(AtomicBool);

impl Default for Reachable {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Reachable {
    fn note(&self, error: Option<&SessionError>) {
        let before = self.0.swap(error.is_none(), Ordering::Relaxed);
        match error {
            Some(error) if before => log::warn!("{error}; it is tried again"),
            None if !before => log::info!("PostgreSQL answers again"),
            _ => {}
        }
    }
}

impl Sessions {
    /// At most `most` sessions, which are begun when they are needed.
    pub(super) fn new(
        config: &PostgresConfig,
        most: usize,
        reachable: Arc<Reachable>,
    ) -> anyhow::Result<Self> {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let postgres = config.url.config.clone();
        let warnings = Warnings::default();
        let heard = warnings.clone();
        let longest = hosts::longest(&postgres);
        let manager = match &config.tls {
            Some(tls) => {
                let tls = MakeRustlsConnect::new(tls.clone());
                let hosts = Hosts::new(&postgres, tls, heard);
                Manager::from_connect(postgres, hosts, manager)
            }
            None => {
                let hosts = Hosts::new(&postgres, NoTls, heard);
                Manager::from_connect(postgres, hosts, manager)
            }
        };
        let pool = Pool::builder(manager)
            .max_size(most)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(ANSWER_TIMEOUT))
            .create_timeout(Some(longest))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async {
                    let set =
                        timeout(ANSWER_TIMEOUT, client.batch_execute(&session_settings())).await;
                    let set = set.map_err(|_| HookError::message("it takes too long"))?;
                    set.map_err(HookError::Backend)
                })
            }))
            .build()
            .context("no sessions with PostgreSQL")?;
        Ok(Self { pool, reachable, warnings })
    }

    /// A session that nobody else has now.
    pub(super) async fn get(&self) -> Result<Session, SessionError> {
        let session = self.pool.get().await.map_err(SessionError::from);
        if let Err(error) = &session {
            self.reachable.note(Some(error));
        }
        let object = Some(session?);
        let reachable = Arc::clone(&self.reachable);
        Ok(Session { object, is_usable: AtomicBool::new(true), reachable })
    }
}

/// A session, until it is dropped. One that did not answer, or that nobody waited for to answer, is not used again: what
/// was asked there may still go on.
#[derive(Debug)]
pub(super) struct Session {
    object: Option<Object>,
    is_usable: AtomicBool,
    reachable: Arc<Reachable>,
}

impl Session {
    /// What statements are prepared by, and pipelined: those of several futures that are polled together go to the
    /// server together, in that order.
    pub(super) fn client(&self) -> Result<&Object, SessionError> {
        let object = self.object.as_ref().filter(|_| self.is_usable.load(Ordering::Relaxed));
        object.ok_or_else(|| SessionError::NoAnswer("the session has ended".to_owned()))
    }

    /// Waits for an answer, but not for ever.
    pub(super) async fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, SessionError> {
        self.is_usable.store(false, Ordering::Relaxed);
        let answer = match timeout(ANSWER_TIMEOUT, work).await {
            Ok(answer) => answer.map_err(SessionError::from),
            Err(_) => {
                Err(SessionError::NoAnswer(format!("not within {} s", ANSWER_TIMEOUT.as_secs())))
            }
        };
        match &answer {
            Err(error @ SessionError::NoAnswer(_)) => self.reachable.note(Some(error)),
            // Another session may come to another host.
            Err(SessionError::Unavailable(_)) => self.reachable.note(None),
            _ => {
                if let Err(SessionError::StaleStatement(_)) = &answer {
                    self.forget_statements();
                }
                self.reachable.note(None);
                self.is_usable.store(true, Ordering::Relaxed);
            }
        }
        answer
    }

    /// Has the statements of all sessions prepared again.
    fn forget_statements(&self) {
        if let Some(pool) = self.object.as_ref().and_then(Object::pool) {
            pool.manager().statement_caches.clear();
        }
    }

    /// The rows that a prepared statement gives.
    pub(super) async fn rows(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SessionError> {
        let client = self.client()?;
        self.answer(async {
            let statement = client.prepare_cached(statement).await?;
            client.query(&statement, parameters).await
        })
        .await
    }

    /// The row that a prepared statement always gives.
    pub(super) async fn row(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, SessionError> {
        let rows = self.rows(statement, parameters).await?;
        let row = rows.into_iter().next();
        row.ok_or_else(|| SessionError::Refused("a row is missing".to_owned()))
    }

    /// Takes back what was begun. Where that cannot be said, the end of the session does it.
    pub(super) async fn roll_back(&self) {
        if let Ok(client) = self.client() {
            // Where it fails, the session is not used again, or no transaction was begun.
            let _ = self.answer(client.batch_execute("ROLLBACK")).await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !*self.is_usable.get_mut()
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
    }
}
