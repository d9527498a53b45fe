//! The shell in which commands of a document run as they stand there.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::folder::search_path_from;
use crate::launch::program;

/// Where servers listen in a document: the one that is there, and those that its commands start.
const SERVER_ADDRESS: &str = "127.0.0.1:8080";
const OTHER_ADDRESSES: [&str; 2] = ["127.0.0.1:8081", "127.0.0.1:8082"];

/// What divides the outputs of commands. No text that is shown has it.
const DIVIDER: char = '\u{1e}';

/// A shell in a folder, that finds the program under test as `plantd`, and a server where the document
/// says that one listens.
#[derive(Debug)]
pub struct Shell {
    folder: PathBuf,
    server: SocketAddr,
}

impl Shell {
    /// A shell in this folder, for the server that listens there.
    #[must_use]
    pub fn new(folder: &Path, server: SocketAddr) -> Self {
        Self { folder: folder.to_owned(), server }
    }

    /// Runs a script.
    ///
    /// # Panics
    ///
    /// When one of its commands fails.
    #[track_caller]
    pub fn run(&self, script: &str) {
        self.output(script);
    }

    /// Runs commands one after the other, and returns what each of them wrote to standard output.
    ///
    /// # Panics
    ///
    /// When one of them fails.
    #[must_use]
    #[track_caller]
    pub fn outputs<'a>(&self, commands: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let divide = format!("\nprintf '\\{:03o}'\n", u32::from(DIVIDER));
        let script: String =
            commands.into_iter().map(|command| command.to_owned() + &divide).collect();
        let output = self.output(&script);
        let text = String::from_utf8(output.stdout).expect("what is shown is text");
        text.split_terminator(DIVIDER).map(str::to_owned).collect()
    }

    #[track_caller]
    fn output(&self, script: &str) -> Output {
        // The ports of the document may be in use here.
        let mut script = script.replace(SERVER_ADDRESS, &self.server.to_string());
        for address in OTHER_ADDRESSES {
            script = script.replace(address, &free_address());
        }
        // No server stays behind where a command fails.
        let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
        let programs = program().parent().expect("a program has a folder").to_owned();
        let output = Command::new("sh")
            .args(["-euxc", &script])
            .current_dir(&self.folder)
            .env("PATH", search_path_from(programs))
            .env("no_proxy", "*")
            .env_remove("PLANTD_TOKEN")
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

/// An address that nobody listens at.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}
