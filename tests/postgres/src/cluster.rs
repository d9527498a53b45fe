//! A server of PostgreSQL with a folder of its own.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::{env, iter};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::database::Database;
use crate::deadline::{wait_for, wait_until};
use crate::guardian::Guardian;
use crate::postmaster::Postmaster;
use crate::programs;

/// The superuser, and the database that is there from the beginning.
const NAME: &str = "postgres";

/// What is different from what PostgreSQL does by itself: room for many tests on a small machine. Nothing
/// here touches what a commit promises.
const SETTINGS: [(&str, &str); 2] = [("max_connections", "400"), ("shared_buffers", "32MB")];

/// Ports from which the system does not choose by itself, so that no connection takes one while its
/// server is stopped.
const PORTS: std::ops::Range<u16> = 15_000..30_000;

/// How long the name of a Unix socket may be on Linux.
const SOCKET_PATH_MAX: usize = 107;

/// A running or stopped server of PostgreSQL, which listens at a Unix socket and at a port of
/// 127.0.0.1. Whoever connects is taken for whom they say; its superuser is `postgres`. It and its folder
/// are gone when this is dropped, or when this process has ended in any way.
#[derive(Debug)]
pub struct Cluster {
    postmaster: Option<Postmaster>,
    name: String,
    port: u16,
    database: Database,
    // Behind the server, which ends first.
    _guardian: Guardian,
    folder: PathBuf,
}

impl Cluster {
    /// Starts a server with an empty database.
    ///
    /// # Panics
    ///
    /// When there is no PostgreSQL on this machine, or it does not start.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with these settings, as in `postgresql.conf`.
    ///
    /// # Panics
    ///
    /// As [`Self::start`].
    #[must_use]
    #[track_caller]
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_prepared("primary", |data| {
            let mut initdb = programs::unprivileged("initdb");
            initdb.args(["--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust", "--no-sync"]);
            programs::run(initdb.args(["--username", NAME, "--pgdata"]).arg(data));
            let path = data.join("postgresql.conf");
            let mut file =
                File::options().append(true).open(path).expect("initdb has made its settings");
            for (name, value) in SETTINGS.iter().chain(settings) {
                writeln!(file, "{name} = {}", quote(value)).expect("a setting can be written");
            }
        })
    }

    #[track_caller]
    fn start_prepared(name: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = folder();
        let guardian = Guardian::of(&folder);
        prepare(&folder.join("data"));
        let mut cluster = Self {
            postmaster: None,
            name: name.to_owned(),
            port: 0,
            database: Database::at(""),
            _guardian: guardian,
            folder,
        };
        cluster.postmaster = Some(wait_for("a free port", || {
            cluster.port = free_port();
            cluster.try_start().ok()
        }));
        cluster.database = Database::at(&cluster.url());
        cluster
    }

    #[track_caller]
    fn try_start(&self) -> Result<Postmaster, String> {
        // On the command line, where no folder that was copied says otherwise.
        let settings = [
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            // In the quotes of a list.
            format!("unix_socket_directories=\"{}\"", self.socket_folder_text()),
            // A standby tells it to its primary.
            format!("cluster_name={}", self.name),
        ];
        Postmaster::start(&self.data(), &self.folder.join("log"), &settings)
    }

    /// Where it is reached through its Unix socket.
    #[must_use]
    pub fn url(&self) -> String {
        let host = self.socket_folder_text().replace('%', "%25").replace('/', "%2F");
        format!("postgres://{NAME}@{host}:{}/{NAME}", self.port)
    }

    /// Where it is reached over TCP.
    #[must_use]
    pub fn tcp_url(&self) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{NAME}", self.port)
    }

    /// Its port, which stays its own while it is stopped.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its Unix socket.
    #[must_use]
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    fn socket_folder_text(&self) -> &str {
        self.folder.to_str().expect("the folder has a name in UTF-8")
    }

    /// The folder of its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What it has logged since its last start.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Where it is reached, without the server.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Makes another database, with what `CREATE DATABASE` takes behind its name: other rules for letters,
    /// for example.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[must_use]
    #[track_caller]
    pub fn create_database(&self, name: &str, options: &str) -> Database {
        self.query(&format!("CREATE DATABASE {name} {options}"));
        let url = self.url();
        let server = url.strip_suffix(NAME).expect("a URL ends with the name of a database");
        Database::at(&format!("{server}{name}"))
    }

    /// As [`Database::query`].
    ///
    /// # Panics
    ///
    /// When a statement fails.
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        self.database.query(sql)
    }

    /// Sets something in `postgresql.conf`'s place, and returns when all connections that come from now on
    /// see it. Not for what it reads at its start only.
    ///
    /// # Panics
    ///
    /// When the server does not take it.
    #[track_caller]
    pub fn set(&self, name: &str, value: &str) {
        self.query(&format!("ALTER SYSTEM SET {name} = {}", quote(value)));
        self.reload();
    }

    /// Has it read its settings, `pg_hba.conf` and its certificate again, and returns when all connections
    /// that come from now on see them.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    #[track_caller]
    pub fn reload(&self) {
        let loaded = || self.query("SELECT pg_conf_load_time()");
        let before = loaded();
        self.query("SELECT pg_reload_conf()");
        wait_until("the settings to be read again", || loaded() != before);
    }

    /// Whether it has not been stopped.
    pub fn is_running(&mut self) -> bool {
        self.postmaster.as_mut().is_some_and(Postmaster::is_running)
    }

    /// Ends it as a crash of PostgreSQL does: it takes no time to write what only its memory has, and
    /// has to read its log at the next start.
    ///
    /// # Panics
    ///
    /// When it does not run.
    #[track_caller]
    pub fn stop_immediate(&mut self) {
        self.stop(Signal::QUIT);
    }

    /// Ends it in order, but without waiting for those who are connected.
    ///
    /// # Panics
    ///
    /// When it does not run.
    #[track_caller]
    pub fn stop_fast(&mut self) {
        self.stop(Signal::INT);
    }

    #[track_caller]
    fn stop(&mut self, signal: Signal) {
        let mut postmaster = self.postmaster.take().expect("it runs");
        postmaster.send(signal);
        postmaster.wait_for_exit();
    }

    /// Sends SIGKILL to all its processes, and returns when none is left.
    ///
    /// # Panics
    ///
    /// When it does not run.
    #[track_caller]
    pub fn kill(&mut self) {
        self.postmaster.take().expect("it runs").kill();
    }

    /// Stops all its processes as they stand, so that it answers nobody, until [`Self::unfreeze`].
    ///
    /// # Panics
    ///
    /// When it does not run.
    #[track_caller]
    pub fn freeze(&self) {
        let _ = self.postmaster.as_ref().expect("it runs").freeze();
    }

    /// Lets it go on.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn unfreeze(&self) {
        self.postmaster.as_ref().expect("it runs").unfreeze();
    }

    /// Starts it again on its folder and at its port.
    ///
    /// # Panics
    ///
    /// When it runs, or does not start.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(!self.is_running(), "it still runs");
        self.postmaster = Some(wait_for("postgres to start again", || self.try_start().ok()));
    }

    /// Starts a standby that follows this one, from a copy of all that is there. It answers those who
    /// only read. What it has not taken yet is kept for it.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[must_use]
    #[track_caller]
    pub fn standby(&self) -> Self {
        let name = format!("standby_{:08x}", fastrand::u32(..));
        Self::start_prepared(&name, |data| {
            let mut copy = programs::unprivileged("pg_basebackup");
            copy.args(["--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
            // With the settings of a standby, for which its primary keeps what it still needs.
            copy.args(["--write-recovery-conf", "--create-slot", "--slot", &name]);
            programs::run(copy.args(["--dbname", &self.url(), "--pgdata"]).arg(data));
        })
    }

    /// From now on a commit here is answered only when it is on the standby's disk too.
    ///
    /// # Panics
    ///
    /// When the standby does not follow this one.
    #[track_caller]
    pub fn wait_for_commits_on(&self, standby: &Self) {
        self.set("synchronous_standby_names", &standby.name);
        let state = format!(
            "SELECT sync_state FROM pg_stat_replication WHERE application_name = '{}'",
            standby.name
        );
        wait_until("the standby to be synchronous", || self.query(&state) == "sync");
    }

    /// Lets a standby follow no longer, and returns when it takes writes.
    ///
    /// # Panics
    ///
    /// When it goes on following.
    #[track_caller]
    pub fn promote(&self) {
        // What it still takes from its primary may end a query.
        wait_until("the end of recovery", || {
            let is_in_recovery = self.database.try_query("SELECT pg_is_in_recovery()");
            let is_over = is_in_recovery.is_ok_and(|answer| answer == "f");
            if !is_over {
                let _ = self.database.try_query("SELECT pg_promote(wait => false)");
            }
            is_over
        });
    }
}

/// A new folder, in which the server may write and everybody reaches its socket.
fn folder() -> PathBuf {
    // Where temporary folders are, if the name of a socket in it is not too long.
    let name_of_socket = "/pg-123456/.s.PGSQL.12345".len();
    let parent = iter::once(env::temp_dir())
        .find(|folder| folder.as_os_str().len() + name_of_socket <= SOCKET_PATH_MAX)
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    let folder = tempfile::Builder::new().prefix("pg-").tempdir_in(parent);
    // The guardian removes it.
    let folder = folder.map(TempDir::keep).and_then(fs::canonicalize);
    let folder = folder.expect("a temporary folder can be made");
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("it is ours");
    if programs::is_root() {
        let user = Some(programs::UNPRIVILEGED);
        chown(&folder, user, user).expect("root gives away what it has");
    }
    folder
}

/// A port that nobody listens at. Somebody else may be quicker.
fn free_port() -> u16 {
    wait_for("a free port", || {
        let port = fastrand::u16(PORTS);
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    })
}

/// A text as a value in SQL and in the files of settings.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
