//! How a `plantd` process is started: the program, its arguments, its environment.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

use test_postgres::{UNPRIVILEGED, is_root};

use crate::certificate::{chain_path, key_path};
use crate::folder::repository;
use crate::process::Process;
use crate::small_disk::SmallDisk;

/// The token that servers of tests accept, with every scope.
pub const TOKEN: &str = "the-token-of-the-tests";

/// The exit code when a command has found something: rows that failed, no such plant, damage.
pub const FINDINGS: i32 = 1;

/// The exit code for a wrong command line, from `sysexits.h` like the two below.
pub const USAGE: i32 = 64;

/// The exit code when a file, a port or a database cannot be used.
pub const IO: i32 = 74;

/// The exit code when the reader of standard output ends first: what a shell shows for a command that SIGPIPE ends.
pub const READER_GONE: i32 = 128 + 13;

/// The exit code for an invalid value in the environment or in a configuration file.
pub const CONFIGURATION: i32 = 78;

/// The variable with the URL of the PostgreSQL that has the plants.
const POSTGRES: &str = "PLANTD_POSTGRES";

/// The variable with the age that events reach before they may be forgotten.
const KEEP_EVENTS_FOR: &str = "PLANTD_KEEP_EVENTS_FOR";

/// Passes standard input on as systemd passes a socket. A test may set other values of the two variables.
const PASS_SOCKET: &str = "exec 3<&0 </dev/null && \
    export LISTEN_FDS=\"${LISTEN_FDS-1}\" LISTEN_PID=\"${LISTEN_PID-$$}\"";

/// How to start `plantd`. By default it listens on a free port, accepts [`TOKEN`], and drains without a delay. These
/// defaults are in the environment, so that flags can override them.
#[derive(Clone, Debug)]
#[must_use]
pub struct Launch {
    program: fn() -> &'static Path,
    wrapper: Vec<OsString>,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    current_folder: Option<PathBuf>,
    /// A copy of the program to run as a user who is subject to file permissions.
    program_for_all: Option<PathBuf>,
    passed_socket: Option<Arc<OwnedFd>>,
}

impl Default for Launch {
    fn default() -> Self {
        Self::new()
    }
}

impl Launch {
    /// The default launch for most tests.
    pub fn new() -> Self {
        let launch = Self {
            program,
            wrapper: Vec::new(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            current_folder: None,
            program_for_all: None,
            passed_socket: None,
        };
        launch
            .environment("PLANTD_LISTEN", "127.0.0.1:0")
            .environment("PLANTD_TOKEN", TOKEN)
            .environment("PLANTD_DRAIN_DELAY", "0s")
    }

    /// A command for the server at this address.
    pub fn for_server(address: SocketAddr, arguments: &[&str]) -> Self {
        let url = format!("http://{address}");
        Self::new().arguments(arguments.iter().copied()).arguments(["--url", &url])
    }

    /// Adds arguments.
    pub fn arguments<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the environment.
    pub fn environment(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Removes a variable from the environment.
    pub fn without_environment(mut self, name: &str) -> Self {
        self.environment.remove(&OsString::from(name));
        self
    }

    /// Sets the current folder.
    pub fn current_folder(mut self, folder: &Path) -> Self {
        self.current_folder = Some(folder.to_owned());
        self
    }

    /// Sets the folder of the plants.
    pub fn data(self, folder: &Path) -> Self {
        self.environment("PLANTD_DATA", folder)
    }

    /// Serves TLS with the certificate and the key in this folder.
    pub fn tls(self, folder: &Path) -> Self {
        self.environment("PLANTD_TLS_CERT", chain_path(folder))
            .environment("PLANTD_TLS_KEY", key_path(folder))
    }

    /// Keeps the plants in this schema of this PostgreSQL.
    pub fn postgres(self, url: &str, schema: &str) -> Self {
        self.environment(POSTGRES, url).environment("PLANTD_POSTGRES_SCHEMA", schema)
    }

    /// Whether the plants are in PostgreSQL.
    pub(crate) fn is_on_postgres(&self) -> bool {
        self.environment.contains_key(&OsString::from(POSTGRES))
    }

    /// Keeps this many events, and none for its age.
    pub fn keep_only_events(self, events: &str) -> Self {
        self.environment("PLANTD_KEEP_EVENTS", events).environment(KEEP_EVENTS_FOR, "0s")
    }

    /// Whether [`Self::keep_only_events`] was called.
    pub(crate) fn forgets_events(&self) -> bool {
        self.environment.contains_key(&OsString::from(KEEP_EVENTS_FOR))
    }

    /// Runs the program that has fault points, with these faults: `POINT=ACTION`, separated by semicolons.
    /// `plant_store::fault` lists the actions.
    pub fn faults(mut self, faults: &str) -> Self {
        self.program = program_with_fault_points;
        self.environment("FAILPOINTS", faults)
    }

    /// Runs the program under strace, which writes to `trace` and also gets `options`.
    ///
    /// strace runs beside the server and not above it: signals and the exit status are the server's own.
    pub fn under_strace(self, trace: &Path, options: &[impl AsRef<OsStr>]) -> Self {
        let is_there = Command::new("strace")
            .arg("-V")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        assert!(is_there, "install strace, or run `cargo xtask test`, which does");
        let words = ["strace", "-D", "-f", "-y", "-o"].map(OsString::from).into_iter();
        let words = words
            .chain([trace.into()])
            .chain(options.iter().map(|option| option.as_ref().to_owned()));
        self.wrapped(words)
    }

    /// Limits the descriptors, softly and hard.
    pub fn descriptor_limits(self, soft: u32, hard: u32) -> Self {
        self.after(&format!("ulimit -S -n {soft} && ulimit -H -n {hard}"))
    }

    /// Ignores SIGHUP, as `nohup` does.
    pub fn without_hangup(self) -> Self {
        self.after("trap '' HUP")
    }

    /// Sets the umask, in octal.
    pub fn umask(self, umask: &str) -> Self {
        self.after(&format!("umask {umask}"))
    }

    /// Writes standard error to this file, which may be a named pipe.
    pub fn standard_error(self, path: &Path) -> Self {
        let path = path.to_str().expect("UTF-8");
        self.after(&format!("exec 2>'{path}'"))
    }

    /// Writes standard output to this file, which may be a named pipe.
    pub fn standard_output(self, path: &Path) -> Self {
        let path = path.to_str().expect("UTF-8");
        self.after(&format!("exec >'{path}'"))
    }

    /// Passes this socket as systemd does, as the only listener.
    pub fn passed_socket(self, socket: impl Into<OwnedFd>) -> Self {
        let launch = self.without_environment("PLANTD_LISTEN").after(PASS_SOCKET);
        Self { passed_socket: Some(Arc::new(socket.into())), ..launch }
    }

    /// Starts through a shell that runs these commands and then becomes the program.
    fn after(self, commands: &str) -> Self {
        let script = format!("{commands} && exec \"$0\" \"$@\"");
        self.wrapped(["sh", "-c", &script].map(OsString::from))
    }

    /// Makes this disk visible to the program.
    pub fn within(self, disk: &SmallDisk) -> Self {
        self.wrapped(disk.enter())
    }

    /// Starts through another program, which starts the previous wrappers.
    fn wrapped(mut self, words: impl IntoIterator<Item = OsString>) -> Self {
        self.wrapper.splice(0..0, words);
        self
    }

    /// Runs as a user who is subject to file permissions: as [`UNPRIVILEGED`] if the tests run as root. `program`
    /// must come from [`copy_program`].
    pub fn unprivileged(mut self, program: &Path) -> Self {
        self.program_for_all = Some(program.to_owned());
        self
    }

    /// Builds the program now, so that the build does not delay the start.
    pub(crate) fn build(&self) {
        let _ = (self.program)();
    }

    /// Starts the program, with nothing on its standard input.
    pub fn spawn(&self) -> Process {
        self.spawn_reading(self.passed_socket.as_ref().map_or_else(Stdio::null, |socket| {
            socket.try_clone().expect("a descriptor can be copied").into()
        }))
    }

    /// Runs the program to its end, and asserts this exit code.
    #[track_caller]
    pub fn run(&self, exit_code: i32) -> Process {
        ended(self.spawn(), exit_code)
    }

    /// Runs the program to its end with this standard input, and asserts this exit code.
    #[track_caller]
    pub fn run_reading(&self, stdin: impl Into<Stdio>, exit_code: i32) -> Process {
        ended(self.spawn_reading(stdin), exit_code)
    }

    /// Runs the program to its end. Asserts that it ends with 0 and says nothing on standard error, and returns what
    /// it prints.
    #[track_caller]
    pub fn printed(&self) -> String {
        let process = self.run(0);
        assert_eq!(process.stderr(), "");
        process.stdout()
    }

    /// Runs the program to its end. Asserts that it ends with this exit code, prints nothing, and says these
    /// words on standard error. Returns what it said.
    #[track_caller]
    pub fn assert_refused(&self, exit_code: i32, words: &[&str]) -> String {
        let mut process = self.spawn();
        process.assert_exit_code(exit_code);
        let said = process.stderr();
        assert_eq!(process.stdout(), "", "{said}");
        assert!(!said.trim().is_empty(), "standard error is empty");
        for word in words {
            assert!(said.contains(word), "{said:?} does not hold {word:?}");
        }
        said
    }

    /// Like [`Self::assert_refused`]. Asserts that it says one line, which shows no token.
    #[track_caller]
    pub fn assert_refused_in_a_line(&self, exit_code: i32, words: &[&str]) -> String {
        let said = self.assert_refused(exit_code, words);
        assert!(said.starts_with("error: "), "{said:?}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said:?}");
        assert!(!said.contains(TOKEN), "the message shows the token: {said}");
        said
    }

    /// Starts the program with this standard input.
    pub fn spawn_reading(&self, stdin: impl Into<Stdio>) -> Process {
        // Tests started by `nohup` ignore SIGHUP, and the program would inherit that.
        let mut words = ["env", "--default-signal=HUP"].map(OsString::from).to_vec();
        words.extend(self.wrapper.iter().cloned());
        words.push(self.program_for_all.as_deref().unwrap_or_else(|| (self.program)()).into());
        words.extend(self.arguments.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        // The developer's own settings of `plantd` must have no effect.
        for (name, _) in env::vars_os() {
            let is_ours = name.to_str().is_some_and(|name| name.starts_with("PLANTD_"));
            if is_ours || name == "RUST_LOG" || name == "FAILPOINTS" {
                command.env_remove(name);
            }
        }
        command.envs(&self.environment);
        if let Some(folder) = &self.current_folder {
            command.current_dir(folder);
        }
        if self.program_for_all.is_some() && is_root() {
            // `uid` also removes root's supplementary groups.
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        Process::spawn(command.stdin(stdin))
    }
}

#[track_caller]
fn ended(mut process: Process, exit_code: i32) -> Process {
    process.assert_exit_code(exit_code);
    process
}

/// Copies the program into a folder and opens both to every user: its own folder may be closed to others.
pub fn copy_program(folder: &Path) -> PathBuf {
    let path = folder.join("plantd");
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("permissions can be set");
    // Another test may fork at this moment, and its process would inherit a copy that this process has open for
    // writing. Such a file cannot be executed.
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).args([program(), &path]).status();
    assert!(status.expect("install can be run").success(), "a program can be copied");
    path
}

/// The features with which `cargo xtask test` builds `plantd`: its build is reused here.
const FEATURES: &str = "plant-store/conformance,plant-http/__internal";

/// The program under test, built once if it is not fresh.
pub fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> =
        LazyLock::new(|| build(escargot::CargoBuild::new().current_release(), FEATURES));
    &PROGRAM
}

/// The program with fault points, built in a target folder of its own. It shares all dependencies with the other
/// builds of this profile.
fn program_with_fault_points() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let build_folder =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository("target"), PathBuf::from);
        let own = escargot::CargoBuild::new()
            .env("CARGO_BUILD_BUILD_DIR", build_folder)
            .target_dir(repository("target/fault-points"));
        build(own, &format!("{FEATURES},plantd/__fault-points"))
    });
    &PROGRAM
}

/// The cargo that runs the tests, in the root of the checkout.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in variables_of_tests() {
        cargo.env_remove(name);
    }
    cargo.current_dir(repository("."));
    cargo
}

/// The variables that cargo sets for a test. Dependencies that read them would be built again.
fn variables_of_tests() -> impl Iterator<Item = String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
}

fn build(build: escargot::CargoBuild, features: &str) -> PathBuf {
    variables_of_tests()
        .fold(build, |build, name| build.env_remove(name))
        .manifest_path(repository("Cargo.toml"))
        .args(["--workspace", "--features", features])
        .bin("plantd")
        .run()
        .expect("plantd must build")
        .path()
        .to_owned()
}
