//! Connections to PostgreSQL: some for writing and some for reading, so that neither waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio::time::timeout;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresConfig;
use super::hosts::{self, Hosts, Warnings};

/// What is done at once may take so long. Then the connection is given up.
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
pub(super) enum Trouble {
    /// There is no connection, or there is none any more.
    #[error("PostgreSQL does not answer: {0}")]
    NoAnswer(String),
    /// It was taken back, and may well be done when it is tried again.
    #[error("PostgreSQL took it back: {0}")]
    Conflict(String),
    /// It is wrong, and will be so when it is tried again.
    #[error("PostgreSQL refused it: {0}")]
    Refused(String),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(cause) = error.as_db_error() else {
            return Self::NoAnswer(format!("{:#}", anyhow::Error::from(error)));
        };
        let code = cause.code();
        let said = format!("{} ({})", cause.message(), code.code());
        // PostgreSQL ends the session with it, or this is the wrong server by now.
        let is_over = matches!(cause.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
            || *code == SqlState::READ_ONLY_SQL_TRANSACTION
            || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
            || ["08", "53", "57", "58"].iter().any(|class| code.code().starts_with(class));
        let is_conflict = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
            SqlState::LOCK_NOT_AVAILABLE,
        ]
        .contains(code);
        // A statement that took too long had to wait for another one.
        if is_conflict || *code == SqlState::QUERY_CANCELED {
            Self::Conflict(said)
        } else if is_over {
            Self::NoAnswer(said)
        } else {
            Self::Refused(said)
        }
    }
}

impl From<PoolError> for Trouble {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                match Self::from(error) {
                    // Who may not come in now may do so later, where that is mended.
                    Self::Conflict(said) | Self::Refused(said) => Self::NoAnswer(said),
                    no_answer @ Self::NoAnswer(_) => no_answer,
                }
            }
            error => Self::NoAnswer(error.to_string()),
        }
    }
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
    fn note(&self, trouble: Option<&Trouble>) {
        let before = self.0.swap(trouble.is_none(), Ordering::Relaxed);
        match trouble {
            Some(trouble) if before => log::warn!("{trouble}; it is tried again"),
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
            .create_timeout(Some(longest + ANSWER_TIMEOUT))
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
    pub(super) async fn get(&self) -> Result<Session, Trouble> {
        let session = self.pool.get().await.map_err(Trouble::from);
        if let Err(trouble) = &session {
            self.reachable.note(Some(trouble));
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
    pub(super) fn client(&self) -> Result<&Object, Trouble> {
        let object = self.object.as_ref().filter(|_| self.is_usable.load(Ordering::Relaxed));
        object.ok_or_else(|| Trouble::NoAnswer("the session has ended".to_owned()))
    }

    /// Waits for an answer, but not for ever.
    pub(super) async fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Trouble> {
        self.is_usable.store(false, Ordering::Relaxed);
        let answer = match timeout(ANSWER_TIMEOUT, work).await {
            Ok(answer) => answer.map_err(Trouble::from),
            Err(_) => Err(Trouble::NoAnswer(format!("not within {} s", ANSWER_TIMEOUT.as_secs()))),
        };
        match &answer {
            Err(trouble @ Trouble::NoAnswer(_)) => self.reachable.note(Some(trouble)),
            _ => {
                self.reachable.note(None);
                self.is_usable.store(true, Ordering::Relaxed);
            }
        }
        answer
    }

    /// The rows that a prepared statement gives.
    pub(super) async fn rows(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Trouble> {
        let client = self.client()?;
        self.answer(async {
            let statement = client.prepare_cached(statement).await?;
            client.query(&statement, parameters).await
        })
        .await
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
