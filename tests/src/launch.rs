//! How a `plantd` is started: the program, its arguments, its environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use crate::process::Process;
use crate::small_disk::SmallDisk;

/// The token that a server in a test takes, with every scope.
pub const TOKEN: &str = "the-token-of-the-tests";

/// How the program ends when its command line is wrong, in the words of `sysexits.h` as the two below.
pub const USAGE: i32 = 64;

/// How it ends when the system fails it: a file, a port, a database.
pub const IO: i32 = 74;

/// How it ends when its environment, or a file that it is configured with, is wrong.
pub const CONFIGURATION: i32 = 78;

/// The user and the group of a program that must not be root; on most systems, nobody's.
pub const UNPRIVILEGED: u32 = 65_534;

/// The variable that says in which PostgreSQL the plants are.
const POSTGRES: &str = "PLANTD_POSTGRES";

/// Passes the standard input on as systemd passes a socket. A test may say other numbers.
const PASS_SOCKET: &str = "exec 3<&0 </dev/null && \
    export LISTEN_FDS=\"${LISTEN_FDS-1}\" LISTEN_PID=\"${LISTEN_PID-$$}\"";

/// What is said to a `plantd` when it starts. Without more it listens on a free port, takes
/// [`TOKEN`], and drains without a delay.
///
/// All of that stands in the environment, so that a test may say otherwise by a flag.
#[derive(Clone, Debug)]
pub struct Launch {
    program: fn() -> &'static Path,
    wrapper: Vec<OsString>,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    current_folder: Option<PathBuf>,
    /// What is run instead of the program, as a user whom permissions bind.
    program_for_all: Option<PathBuf>,
    passed_socket: Option<Arc<OwnedFd>>,
}

impl Default for Launch {
    fn default() -> Self {
        Self::new()
    }
}

impl Launch {
    /// The start that most tests want.
    #[must_use]
    pub fn new() -> Self {
        let environment = [
            ("PLANTD_LISTEN", "127.0.0.1:0"),
            ("PLANTD_TOKEN", TOKEN),
            ("PLANTD_DRAIN_DELAY", "0s"),
        ];
        let environment =
            environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self {
            program,
            wrapper: Vec::new(),
            arguments: Vec::new(),
            environment,
            current_folder: None,
            program_for_all: None,
            passed_socket: None,
        }
    }

    /// With more arguments.
    #[must_use]
    pub fn arguments<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With a variable in the environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Without a variable in the environment.
    #[must_use]
    pub fn without_environment(mut self, name: &str) -> Self {
        self.environment.remove(&OsString::from(name));
        self
    }

    /// In this current folder.
    #[must_use]
    pub fn current_folder(mut self, folder: &Path) -> Self {
        self.current_folder = Some(folder.to_owned());
        self
    }

    /// With this folder for the plants.
    #[must_use]
    pub fn data(self, folder: &Path) -> Self {
        self.environment("PLANTD_DATA", folder)
    }

    /// With the plants in this schema of this PostgreSQL.
    #[must_use]
    pub fn postgres(self, url: &str, schema: &str) -> Self {
        self.environment(POSTGRES, url).environment("PLANTD_POSTGRES_SCHEMA", schema)
    }

    /// Whether it has its plants in PostgreSQL.
    pub(crate) fn is_on_postgres(&self) -> bool {
        self.environment.contains_key(&OsString::from(POSTGRES))
    }

    /// With the program that has fault points, and what happens there: `POINT=ACTION`, several with
    /// semicolons in between. `plant_store::fault` says what an action may be.
    #[must_use]
    pub fn faults(mut self, faults: &str) -> Self {
        self.program = program_with_fault_points;
        self.environment("FAILPOINTS", faults)
    }

    /// Under strace, which writes to `trace` and gets `options` too.
    ///
    /// strace runs beside the server and not above it: signals and the exit status are the server's
    /// own.
    ///
    /// # Panics
    ///
    /// When there is no strace on this machine.
    #[must_use]
    pub fn under_strace(self, trace: &Path, options: &[&str]) -> Self {
        let is_there = Command::new("strace")
            .arg("-V")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        assert!(is_there, "install strace, or run `cargo xtask test`, which does");
        let words = ["strace", "-D", "-f", "-y", "-o"].map(OsString::from).into_iter();
        let words = words.chain([trace.into()]).chain(options.iter().map(OsString::from));
        self.wrapped(words)
    }

    /// With at most so many descriptors, of which it may use a part at first.
    #[must_use]
    pub fn descriptor_limits(self, soft: u32, hard: u32) -> Self {
        self.after(&format!("ulimit -S -n {soft} && ulimit -H -n {hard}"))
    }

    /// With SIGHUP ignored, as `nohup` starts a program.
    #[must_use]
    pub fn without_hangup(self) -> Self {
        self.after("trap '' HUP")
    }

    /// With this socket passed to it, as systemd does, and no other place to listen at.
    #[must_use]
    pub fn passed_socket(self, socket: impl Into<OwnedFd>) -> Self {
        let launch = self.without_environment("PLANTD_LISTEN").after(PASS_SOCKET);
        Self { passed_socket: Some(Arc::new(socket.into())), ..launch }
    }

    /// Started by a shell that has done this, and becomes the program.
    fn after(self, commands: &str) -> Self {
        let script = format!("{commands} && exec \"$0\" \"$@\"");
        self.wrapped(["sh", "-c", &script].map(OsString::from))
    }

    /// With this disk in sight.
    #[must_use]
    pub fn within(self, disk: &SmallDisk) -> Self {
        self.wrapped(disk.enter())
    }

    /// Started by another program, of which there can be one.
    fn wrapped(mut self, words: impl IntoIterator<Item = OsString>) -> Self {
        assert!(self.wrapper.is_empty(), "it is started by {:?} already", self.wrapper);
        self.wrapper = words.into_iter().collect();
        self
    }

    /// As a user whom permissions bind, which is [`UNPRIVILEGED`] where the tests run as root. The
    /// program is one that [`copy_program`] has made.
    #[must_use]
    pub fn unprivileged(mut self, program: &Path) -> Self {
        self.program_for_all = Some(program.to_owned());
        self
    }

    /// Makes sure that the program is built, so that a start takes no longer than it has to.
    pub(crate) fn build(&self) {
        let _ = (self.program)();
    }

    /// Starts the program, with nothing on its standard input.
    ///
    /// # Panics
    ///
    /// When it cannot be built or started.
    #[must_use]
    pub fn spawn(&self) -> Process {
        self.spawn_reading(self.passed_socket.as_ref().map_or_else(Stdio::null, |socket| {
            socket.try_clone().expect("a descriptor can be copied").into()
        }))
    }

    /// Runs the program to its end. Claims that it ends with this exit code, prints nothing, and says these
    /// words on standard error. Returns what it said.
    ///
    /// # Panics
    ///
    /// When it does something else.
    #[track_caller]
    pub fn assert_refused(&self, exit_code: i32, words: &[&str]) -> String {
        let mut process = self.spawn();
        process.assert_exit_code(exit_code);
        let said = process.stderr();
        assert_eq!(process.stdout(), "", "{said}");
        assert!(!said.trim().is_empty(), "it says nothing");
        for word in words {
            assert!(said.contains(word), "{said:?} does not hold {word:?}");
        }
        said
    }

    /// Starts the program with this standard input.
    ///
    /// # Panics
    ///
    /// When it cannot be built or started.
    #[must_use]
    pub fn spawn_reading(&self, stdin: impl Into<Stdio>) -> Process {
        // Where the tests were started by `nohup` or the like, the program would ignore SIGHUP too.
        let mut words = ["env", "--default-signal=HUP"].map(OsString::from).to_vec();
        words.extend(self.wrapper.iter().cloned());
        words.push(self.program_for_all.as_deref().unwrap_or_else(|| (self.program)()).into());
        words.extend(self.arguments.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        // Nothing of what the developer's own shell says to a `plantd` may reach this one.
        for (name, _) in std::env::vars_os() {
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
            // The standard library takes root's groups away too.
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        Process::spawn(command.stdin(stdin))
    }
}

/// Whether the tests run as root, whom permissions do not bind.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Copies the program to where every user can execute it: where it is built may be closed to others.
/// The folder is opened to them too.
///
/// # Panics
///
/// When it cannot be copied.
#[must_use]
pub fn copy_program(folder: &Path) -> PathBuf {
    let path = folder.join("plantd");
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("it is ours");
    // Were it copied here, a process that another test is just starting could have it open for writing,
    // and then it cannot be run.
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).args([program(), &path]).status();
    assert!(status.expect("install can be run").success(), "a program can be copied");
    path
}

/// The program under test, built once if it is not fresh.
///
/// # Panics
///
/// When it cannot be built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // The same words as in `cargo xtask test`, so that what is built there is taken as it is.
        build()
            .args(["--workspace", "--features", "plant-store/conformance,plant-http/__internal"])
            .bin("plantd")
            .current_release()
            .run()
            .expect("plantd must build")
            .path()
            .to_owned()
    })
}

/// The same with fault points, which no other test and nobody else gets. It lies in a target folder of
/// its own, so that it is never taken for the other one, and is built once for all profiles.
fn program_with_fault_points() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        build()
            .manifest_path(workspace.join("Cargo.toml"))
            .target_dir(workspace.join("target/fault-points"))
            .package("plantd")
            .features("__fault-points")
            .bin("plantd")
            .run()
            .expect("plantd with fault points must build")
            .path()
            .to_owned()
    })
}

/// A build as it would be outside of a test. What cargo tells a test of its package would have some
/// dependencies built again, each time that the package is another one.
fn build() -> escargot::CargoBuild {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        .fold(escargot::CargoBuild::new(), |build, name| build.env_remove(name))
}
