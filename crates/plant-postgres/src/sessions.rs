//! Connections to PostgreSQL. Writes and reads have pools of their own, so that neither waits for the other.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
    Status,
};
use tokio::time::timeout;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::PostgresConfig;
use crate::hosts::{HOST_TIMEOUT, Hosts, Warnings};

/// How long PostgreSQL may take to answer before the connection is given up.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The statements at the start of every session.
///
/// The server ends a statement after 4 s, before [`ANSWER_TIMEOUT`], and an idle transaction after 5 s, but it waits
/// for a `COMMIT` without limit. A server's `synchronous_commit = off` is overridden, because acknowledged writes must
/// be on disk. Plans that scan whole tables or collect all matches are disabled: even with misleading statistics, every
/// statement follows an index and can stop early.
const SESSION_SETTINGS: &str = "SET statement_timeout = '4s'; \
     SET default_transaction_isolation = 'read committed'; \
     SET idle_in_transaction_session_timeout = '5s'; \
     SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'; \
     SELECT set_config(name, 'off', false) FROM pg_settings \
       WHERE name IN ('enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit')";

/// How long a failed operation is retried, counted from its first attempt. The last attempt may end later.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The longest pause before the second attempt, in milliseconds, and before any.
const FIRST_PAUSE_MS: u64 = 40;
const LONGEST_PAUSE_MS: u64 = 640;

/// Waits before the next attempt: exponential back-off with jitter.
pub(super) async fn pause(tries: u32) {
    let longest = FIRST_PAUSE_MS.saturating_mul(1 << tries.min(8)).min(LONGEST_PAUSE_MS);
    tokio::time::sleep(Duration::from_millis(fastrand::u64(2..longest))).await;
}

/// Why an operation in a session failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// No connection, or no answer: a statement that was sent may have been carried out.
    #[error("PostgreSQL does not answer: {0}")]
    NoAnswer(String),
    /// PostgreSQL takes no connections or no writes now; nothing was written.
    #[error("PostgreSQL {0}")]
    Unavailable(String),
    /// The transaction was rolled back, and may succeed if retried.
    #[error("PostgreSQL rolled it back: {0}")]
    Conflict(String),
    /// The transaction was rolled back, because a prepared statement may no longer fit the tables. A retry prepares all
    /// again.
    #[error("PostgreSQL refused a prepared statement: {0}")]
    StaleStatement(String),
    /// PostgreSQL would refuse the transaction again; nothing was written.
    #[error("PostgreSQL refused it: {0}")]
    Refused(String),
    /// The answer to a commit was lost, and its outcome cannot be found out.
    #[error("the outcome of writes is unknown: {0}")]
    UnknownOutcome(String),
}

impl From<tokio_postgres::Error> for SessionError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(cause) = error.as_db_error() else {
            return Self::NoAnswer(format!("{:#}", anyhow::Error::from(error)));
        };
        let (code, said) = (cause.code(), said(cause));
        let class = &code.code()[..2];
        // PostgreSQL ends the session, or does not know the outcome itself.
        let is_over = matches!(cause.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
            || class == "08"
            || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN;
        match *code {
            _ if is_over => Self::NoAnswer(said),
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE
            // The statement was slow because it waited for another one.
            | SqlState::QUERY_CANCELED => Self::Conflict(said),
            SqlState::UNIQUE_VIOLATION if is_our_constraint(cause) => Self::Conflict(said),
            SqlState::FEATURE_NOT_SUPPORTED | SqlState::INVALID_SQL_STATEMENT_NAME => {
                Self::StaleStatement(said)
            }
            // The server has become a standby, its disk is full, or it is about to stop.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION
                || ["53", "57", "58"].contains(&class) =>
            {
                Self::Unavailable(format!("takes no writes now: {said}"))
            }
            // Only the check that all rows were written divides. A division in a function would have a context
            // (`where`).
            SqlState::DIVISION_BY_ZERO if cause.where_().is_none() => Self::Refused(
                "a row was not written, as where a row of the table counters is missing (migrating makes \
                 missing ones and counts again), or a trigger, a rule or a policy leaves rows out"
                    .to_owned(),
            ),
            _ => Self::Refused(said),
        }
    }
}

fn said(cause: &DbError) -> String {
    format!("{} ({})", cause.message(), cause.code().code())
}

/// Whether an id, a block or a group's id is taken. A unique index that an administrator has added is another matter.
fn is_our_constraint(cause: &DbError) -> bool {
    const OURS: [&str; 3] = ["plants_pkey", "events_", "tag_changes_"];
    cause.constraint().is_none_or(|name| OURS.iter().any(|ours| name.starts_with(ours)))
}

impl From<PoolError> for SessionError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                no_connection(error)
            }
            error => Self::NoAnswer(error.to_string()),
        }
    }
}

/// Why there is no connection. The cause may be temporary, so the operation is retried.
fn no_connection(error: tokio_postgres::Error) -> SessionError {
    let refuses = |said: &str, advice: &str| {
        let sign = if advice.is_empty() { "" } else { "; " };
        SessionError::Unavailable(format!("refuses the connection: {said}{sign}{advice}"))
    };
    if let Some(cause) = error.as_db_error() {
        let advice = match *cause.code() {
            SqlState::INVALID_CATALOG_NAME => "create the database, or name another one in the URL",
            SqlState::TOO_MANY_CONNECTIONS => {
                "raise max_connections of the server, or have each client open fewer connections"
            }
            ref code if code.code().starts_with("28") => {
                "check the user and the password in the URL, and pg_hba.conf of the server"
            }
            _ => "",
        };
        return refuses(&said(cause), advice);
    }
    // Without a source, the client stopped waiting.
    let cause = error.source().map(<dyn Error>::downcast_ref::<io::Error>);
    let is_unanswered = cause.is_none_or(|cause| cause.is_some_and(is_of_the_network));
    let is_read_only =
        cause.flatten().map(io::Error::kind) == Some(io::ErrorKind::PermissionDenied);
    let said = format!("{:#}", anyhow::Error::from(error));
    if is_unanswered {
        SessionError::NoAnswer(said)
    } else if is_read_only {
        refuses(&said, "name its primary in the URL, or turn default_transaction_read_only off")
    } else if said.contains("password missing") {
        refuses(&said, "put the password into the URL")
    } else {
        refuses(&said, "")
    }
}

/// Whether the network failed. All other errors come from the server's answer.
fn is_of_the_network(cause: &io::Error) -> bool {
    cause.raw_os_error().is_some()
        || [io::ErrorKind::TimedOut, io::ErrorKind::UnexpectedEof].contains(&cause.kind())
}

#[derive(Clone, Debug)]
pub(super) struct Sessions {
    pool: Pool,
    /// The quoted schema and a dot.
    schema: Arc<str>,
    reachable: Arc<Reachable>,
    warnings: Warnings,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SessionUsage {
    pub(super) open: usize,
    pub(super) in_use: usize,
    pub(super) most: usize,
}

/// Whether the last attempt got an answer. The log reports each change once.
#[derive(Debug, Default)]
pub(super) struct Reachable {
    is_away: AtomicBool,
}

impl Reachable {
    fn note(&self, error: Option<&SessionError>) {
        let was_away = self.is_away.swap(error.is_some(), Ordering::Relaxed);
        match error {
            Some(error) if !was_away => log::warn!("{error}; retrying"),
            None if was_away => log::info!("PostgreSQL answers again"),
            _ => {}
        }
    }
}

impl Sessions {
    /// A pool of at most `most` sessions, opened on demand.
    pub(super) fn new(
        config: &PostgresConfig,
        most: usize,
        reachable: Arc<Reachable>,
    ) -> anyhow::Result<Self> {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let each = config.url.each_host();
        let warnings = Warnings::default();
        let longest = HOST_TIMEOUT * u32::try_from(each.len()).unwrap_or(u32::MAX);
        // `Hosts` has the configuration of each host; the manager's own is not used.
        let none = tokio_postgres::Config::new();
        let manager = match &config.tls {
            Some(tls) => {
                let tls = MakeRustlsConnect::new(tls.clone());
                Manager::from_connect(none, Hosts::new(each, tls, warnings.clone()), manager)
            }
            None => Manager::from_connect(none, Hosts::new(each, NoTls, warnings.clone()), manager),
        };
        let pool = Pool::builder(manager)
            .max_size(most)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(ANSWER_TIMEOUT))
            .create_timeout(Some(longest))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async {
                    let set = timeout(ANSWER_TIMEOUT, client.batch_execute(SESSION_SETTINGS)).await;
                    let set = set.map_err(|_| HookError::message("it takes too long"))?;
                    set.map_err(HookError::Backend)
                })
            }))
            .build()
            .context("no sessions with PostgreSQL")?;
        let schema = format!("{}.", config.schema.quoted()).into();
        Ok(Self { pool, schema, reachable, warnings })
    }

    pub(super) fn usage(&self) -> SessionUsage {
        let Status { max_size, size, available, .. } = self.pool.status();
        SessionUsage { open: size, in_use: size.saturating_sub(available), most: max_size }
    }

    /// A session for the caller alone.
    pub(super) async fn get(&self) -> Result<Session, SessionError> {
        let session = self.pool.get().await.map_err(SessionError::from);
        if let Err(error) = &session {
            self.reachable.note(Some(error));
        }
        let (object, is_usable) = (Some(session?), AtomicBool::new(true));
        Ok(Session { object, is_usable, sessions: self.clone() })
    }
}

/// A session. It returns to the pool when dropped, unless it gave no answer or its caller was canceled, because the
/// statement may still be running.
#[derive(Debug)]
pub(super) struct Session {
    object: Option<Object>,
    is_usable: AtomicBool,
    sessions: Sessions,
}

impl Session {
    /// Replaces `SCHEMA` in a statement by the schema's name.
    pub(super) fn sql(&self, statement: &str) -> String {
        statement.replace("SCHEMA.", &self.sessions.schema)
    }

    /// How many warnings the sessions of the pool have got.
    pub(super) fn warnings(&self) -> u64 {
        self.sessions.warnings.count()
    }

    /// The client, which prepares and pipelines statements. Futures that are polled together send their statements
    /// together, in the order of the first polls.
    pub(super) fn client(&self) -> Result<&Object, SessionError> {
        let object = self.object.as_ref().filter(|_| self.is_usable.load(Ordering::Relaxed));
        object.ok_or_else(|| SessionError::NoAnswer("the session has ended".to_owned()))
    }

    /// Waits for an answer, for at most [`ANSWER_TIMEOUT`].
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
        let Sessions { reachable, pool, .. } = &self.sessions;
        match &answer {
            Err(error @ SessionError::NoAnswer(_)) => {
                reachable.note(Some(error));
                return answer;
            }
            // The session stays unusable, because another session may reach another host.
            Err(SessionError::Unavailable(_)) => {}
            answered => {
                if let Err(SessionError::StaleStatement(_)) = answered {
                    pool.manager().statement_caches.clear();
                }
                self.is_usable.store(true, Ordering::Relaxed);
            }
        }
        reachable.note(None);
        answer
    }

    /// The rows of a prepared statement.
    pub(super) async fn rows(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SessionError> {
        let (client, statement) = (self.client()?, self.sql(statement));
        self.answer(async {
            let statement = client.prepare_cached(&statement).await?;
            client.query(&statement, parameters).await
        })
        .await
    }

    /// The row of a prepared statement that always has one.
    pub(super) async fn row(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, SessionError> {
        let row = self.rows(statement, parameters).await?.into_iter().next();
        row.ok_or_else(|| SessionError::Refused("a row is missing".to_owned()))
    }

    /// Makes the session end when it is dropped, and with it the transaction.
    pub(super) fn give_up(&mut self) {
        *self.is_usable.get_mut() = false;
    }

    /// Rolls back the transaction. If that fails, the session is not used again, and its end rolls back.
    pub(super) async fn roll_back(&self) {
        if let Ok(client) = self.client() {
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
