//! The tools that `cargo xtask test` installs into the target folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::folder::{repository, search_path_from};

/// The tools of one language, in the versions that the repository pins.
#[derive(Debug)]
pub struct Toolbox {
    folder: PathBuf,
    programs: &'static str,
}

impl Toolbox {
    /// The environment of Python.
    #[track_caller]
    pub fn python() -> Self {
        Self::open("python", &["requirements.txt"], "bin")
    }

    /// The packages for Node.
    #[track_caller]
    pub fn node() -> Self {
        Self::open("node", &["package.json", "package-lock.json"], "node_modules/.bin")
    }

    /// The file system of a Debian system.
    #[track_caller]
    pub fn debian() -> Self {
        Self::open("debian", &["debootstrap.txt"], "usr/bin")
    }

    #[track_caller]
    fn open(name: &str, files: &[&str], programs: &'static str) -> Self {
        let sources = repository("tests/tools").join(name);
        let test = env::current_exe().expect("a program knows where it is");
        // A build for a named platform has one more level of folders.
        let mut folders = test.ancestors().map(|folder| folder.join("tools").join(name));
        let folder = folders.find(|folder| folder.is_dir()).unwrap_or_default();
        for file in files {
            let wanted = fs::read(sources.join(file)).expect("the repository has it");
            // An installation writes this file last.
            let installed = fs::read(folder.join("installed-from").join(file));
            assert!(
                installed.is_ok_and(|installed| installed == wanted),
                "the tools in tests/tools/{name}/{file} are not installed: run `cargo xtask test` once"
            );
        }
        Self { folder, programs }
    }

    /// The folder of the tools.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command that runs a tool without standard input. The other tools are on its path.
    pub fn command(&self, program: &str) -> Command {
        let programs = self.folder.join(self.programs);
        let mut command = Command::new(programs.join(program));
        command.env("PATH", search_path_from(programs)).stdin(Stdio::null());
        command
    }
}

/// Runs a checker, and asserts that it succeeds.
#[track_caller]
pub fn run_tool(command: &mut Command) {
    let output = command.output().expect("the tool can be started");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed ({}):\n{said}", output.status);
}
