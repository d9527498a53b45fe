//! A PostgreSQL server with its own folder.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::database::Database;
use crate::guardian::Guardian;
use crate::programs;
use crate::wait::{wait_for, wait_until};

/// The superuser, and the database that is there from the beginning.
const NAME: &str = "postgres";

/// Settings to run many tests on a small machine. None weakens the durability of a commit.
const SETTINGS: [(&str, &str); 2] = [("max_connections", "400"), ("shared_buffers", "32MB")];

/// Ports outside the ephemeral range, so that no outgoing connection takes the port of a stopped server.
const PORTS: std::ops::Range<u16> = 15_000..30_000;

/// The line of `postmaster.pid` that holds the status of the server.
const STATUS_LINE: usize = 7;

/// Messages about conditions that pass: the shared memory of a killed server, or a port in use.
const TRANSIENT: [&str; 2] = ["pre-existing shared memory block", "could not bind"];

/// The longest path of a Unix socket on Linux.
const SOCKET_PATH_MAX: usize = 107;

/// A running or stopped PostgreSQL server. It listens at a Unix socket and at a port of 127.0.0.1, and accepts every
/// login without a password; its superuser is `postgres`. Dropping this, or the end of this process, ends the server
/// and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    /// The first process of the server, the parent of all others.
    postmaster: Option<Child>,
    name: String,
    port: u16,
    database: Database,
    _guardian: Guardian,
    folder: PathBuf,
}

impl Cluster {
    /// Starts a server with an empty database.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Like [`Self::start`], with these settings of `postgresql.conf`.
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
            cluster.try_start()
        }));
        cluster.database = Database::at(&cluster.url());
        cluster
    }

    /// Starts the server, and returns its process once it accepts connections. `None` if it ends before, for a
    /// [`TRANSIENT`] reason.
    #[track_caller]
    fn try_start(&self) -> Option<Child> {
        let file = File::create(self.folder.join("log")).expect("a log can be made");
        let mut command = programs::unprivileged("postgres");
        command.arg("-D").arg(self.data());
        // On the command line, because a standby has a copy of its primary's configuration.
        for setting in [
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            // A list, in which an element may have quotes.
            format!("unix_socket_directories=\"{}\"", self.socket_folder_text()),
            // The name of a standby at its primary.
            format!("cluster_name={}", self.name),
        ] {
            command.args(["-c", &setting]);
        }
        command.stdout(file.try_clone().expect("a file can be cloned")).stderr(file);
        // Signals from the terminal must not reach the server.
        let mut child = command.process_group(0).spawn().expect("postgres can be started");
        let is_ready = wait_for("postgres to be ready or to end", || {
            let has_ended = has_ended(&mut child);
            if self.says_ready(child.id()) { Some(true) } else { has_ended.then_some(false) }
        });
        let is_transient = || TRANSIENT.iter().any(|reason| self.log().contains(reason));
        assert!(is_ready || is_transient(), "postgres does not start: {}", self.log());
        is_ready.then_some(child)
    }

    /// Whether the server with this process id accepts connections.
    fn says_ready(&self, id: u32) -> bool {
        // The file may be from an earlier server, or incomplete.
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines();
        lines.next() == Some(&*id.to_string())
            && lines.nth(STATUS_LINE - 1).is_some_and(|status| status.trim_end() == "ready")
    }

    /// Its URL over the Unix socket.
    pub fn url(&self) -> String {
        let host = self.socket_folder_text().replace('%', "%25").replace('/', "%2F");
        format!("postgres://{NAME}@{host}:{}/{NAME}", self.port)
    }

    /// Its URL over TCP.
    pub fn tcp_url(&self) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{NAME}", self.port)
    }

    /// Its port, which it keeps while it is stopped.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its Unix socket.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    fn socket_folder_text(&self) -> &str {
        self.folder.to_str().expect("the folder has a name in UTF-8")
    }

    /// The folder of its data.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Its log since its last start.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Its database `postgres`.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Makes another database. `options` follow the name in `CREATE DATABASE`: another locale, for example.
    #[track_caller]
    pub fn create_database(&self, name: &str, options: &str) -> Database {
        self.query(&format!("CREATE DATABASE {name} {options}"));
        let url = self.url();
        let server = url.strip_suffix(NAME).expect("a URL ends with the name of a database");
        Database::at(&format!("{server}{name}"))
    }

    /// Like [`Database::query`].
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        self.database.query(sql)
    }

    /// Changes a setting by `ALTER SYSTEM`, and reloads all settings, `pg_hba.conf` and the certificate. Returns once
    /// new connections see them. Not for settings that need a restart.
    #[track_caller]
    pub fn set(&self, name: &str, value: &str) {
        self.query(&format!("ALTER SYSTEM SET {name} = {}", quote(value)));
        let loaded = || self.query("SELECT pg_conf_load_time()");
        let before = loaded();
        self.query("SELECT pg_reload_conf()");
        wait_until("the settings to be read again", || loaded() != before);
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.postmaster.as_mut().is_some_and(|child| !has_ended(child))
    }

    /// An immediate shutdown, which is a crash: the next start must recover from the write-ahead log.
    #[track_caller]
    pub fn stop_immediate(&mut self) {
        self.stop(Signal::QUIT);
    }

    /// A fast shutdown, which ends all connections.
    #[track_caller]
    pub fn stop_fast(&mut self) {
        self.stop(Signal::INT);
    }

    #[track_caller]
    fn stop(&mut self, signal: Signal) {
        let mut postmaster = self.postmaster.take().expect("the server runs");
        send(postmaster.id(), signal);
        wait_until("postgres to end", || has_ended(&mut postmaster));
    }

    /// Kills all its processes, and waits until none is left.
    #[track_caller]
    pub fn kill(&mut self) {
        let children = self.freeze();
        for id in &children {
            send(*id, Signal::KILL);
        }
        self.stop(Signal::KILL);
        // Init may be slow to reap them.
        wait_until("the processes of postgres to end", || {
            children.iter().all(|id| matches!(state(*id), None | Some('Z' | 'X')))
        });
    }

    /// Stops all its processes by SIGSTOP until [`Self::unfreeze`], and returns the ids of the postmaster's children.
    #[track_caller]
    pub fn freeze(&self) -> Vec<u32> {
        let postmaster = self.postmaster_id();
        send(postmaster, Signal::STOP);
        // Once stopped, the postmaster starts no more children.
        wait_until("postgres to be stopped", || state(postmaster) == Some('T'));
        let children = children(postmaster);
        children.iter().for_each(|id| send(*id, Signal::STOP));
        children
    }

    /// Continues all its processes.
    pub fn unfreeze(&self) {
        let postmaster = self.postmaster_id();
        for id in children(postmaster).into_iter().chain([postmaster]) {
            send(id, Signal::CONT);
        }
    }

    fn postmaster_id(&self) -> u32 {
        self.postmaster.as_ref().expect("the server runs").id()
    }

    /// Starts it again, on the same folder and port.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(!self.is_running(), "the server still runs");
        self.postmaster = Some(wait_for("postgres to start again", || self.try_start()));
    }

    /// Starts a standby that follows this one. It serves reads, and has a replication slot.
    #[track_caller]
    pub fn standby(&self) -> Self {
        let name = format!("standby_{:08x}", fastrand::u32(..));
        Self::start_prepared(&name, |data| {
            let mut copy = programs::unprivileged("pg_basebackup");
            copy.args(["--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
            copy.args(["--write-recovery-conf", "--create-slot", "--slot", &name]);
            programs::run(copy.args(["--dbname", &self.url(), "--pgdata"]).arg(data));
        })
    }

    /// Makes the standby synchronous: from now on, commits wait for the standby's disk too.
    #[track_caller]
    pub fn wait_for_commits_on(&self, standby: &Self) {
        self.set("synchronous_standby_names", &standby.name);
        let state = format!(
            "SELECT sync_state FROM pg_stat_replication WHERE application_name = '{}'",
            standby.name
        );
        wait_until("the standby to be synchronous", || self.query(&state) == "sync");
    }

    /// Promotes a standby, and returns when it takes writes.
    #[track_caller]
    pub fn promote(&self) {
        // The end of recovery may cancel a query.
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

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.is_running() {
            self.unfreeze();
            send(self.postmaster_id(), Signal::QUIT);
            // A panic here would hide the first one; the guardian still cleans up.
            let _ = self.postmaster.take().map(|mut child| child.wait());
        }
    }
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("a child can be waited for").is_some()
}

fn children(id: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let children = children.expect("the system tells of a process's children");
    children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn send(id: u32, signal: Signal) {
    let id = i32::try_from(id).expect("a process id is an i32");
    // Fails only if the process has ended.
    let _ = kill_process(Pid::from_raw(id).expect("a process id is not 0"), signal);
}

/// The state of a process as a letter, as in `ps`. `None` if it does not exist.
fn state(id: u32) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("State:\t"))?.chars().next()
}

/// A new folder that the server owns and every user can access.
fn folder() -> PathBuf {
    let mut parent = env::temp_dir();
    if parent.as_os_str().len() + "/pg-123456/.s.PGSQL.12345".len() > SOCKET_PATH_MAX {
        parent = PathBuf::from("/tmp");
    }
    let folder = tempfile::Builder::new().prefix("pg-").tempdir_in(parent);
    // The guardian removes the folder.
    let folder = folder.map(TempDir::keep).and_then(fs::canonicalize);
    let folder = folder.expect("a temporary folder can be made");
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("permissions can be set");
    if programs::is_root() {
        let user = Some(programs::UNPRIVILEGED);
        chown(&folder, user, user).expect("the owner can be changed");
    }
    folder
}

/// A free port. Another process may take it first.
fn free_port() -> u16 {
    wait_for("a free port", || {
        let port = fastrand::u16(PORTS);
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    })
}

/// A text as a literal in SQL and in `postgresql.conf`.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
