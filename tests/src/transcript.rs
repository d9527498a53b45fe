//! The commands of a document, and the answers that it shows.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::document::Document;
use crate::folder::search_path_from;
use crate::launch::program;

/// The address of servers in documents.
const SERVER_ADDRESS: &str = "127.0.0.1:8080";
const OTHER_ADDRESSES: [&str; 2] = ["127.0.0.1:8081", "127.0.0.1:8082"];

/// Separates the outputs of commands. Occurs in no document.
const DIVIDER: char = '\u{1e}';

/// The beginning of a command.
const PROMPT: &str = "$ ";

/// A shell for the commands of documents. `plantd` is the program under test, and the documented address is that of a
/// server.
#[derive(Debug)]
pub struct Shell {
    folder: PathBuf,
    server: SocketAddr,
}

impl Shell {
    /// A shell in this folder, for this server.
    pub fn new(folder: &Path, server: SocketAddr) -> Self {
        Self { folder: folder.to_owned(), server }
    }

    /// Runs a script, all of whose commands must succeed.
    #[track_caller]
    pub fn run(&self, script: &str) {
        self.output(script);
    }

    /// Runs commands one after the other, and returns the standard output of each.
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
        // The documented ports may be in use.
        let mut script = script.replace(SERVER_ADDRESS, &self.server.to_string());
        for address in OTHER_ADDRESSES {
            script = script.replace(address, &free_address());
        }
        // No server that the script starts may outlive it.
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

/// A free address.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a listener has an address").to_string()
}

/// The commands of a document's `console` blocks, each with the output that the document shows.
///
/// A command begins with `$ `, and continues on the next line after a `\`. The lines up to the next command are its
/// output. A final line end does not count.
#[derive(Debug)]
pub struct Transcript {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    command: String,
    shown: String,
}

impl Transcript {
    /// The commands of a document. Every block must begin with one.
    #[track_caller]
    pub fn of(document: &Document) -> Self {
        let parts = document.parts().iter();
        let blocks = parts.flat_map(|part| part.blocks("console"));
        Self { steps: blocks.flat_map(|block| steps(&block)).collect() }
    }

    /// The commands, in their order.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| step.command.as_str())
    }

    /// Runs the commands in order in one shell, and asserts that each outputs what the document shows.
    #[track_caller]
    pub fn run(&self, shell: &Shell) {
        let outputs = shell.outputs(self.commands());
        assert_eq!(outputs.len(), self.steps.len(), "each command has an output");
        for (Step { command, shown }, output) in self.steps.iter().zip(&outputs) {
            if let Err(difference) = compare(shown, output) {
                panic!("{difference}\n$ {command}\nshown:\n{shown}\nanswered:\n{output}");
            }
        }
    }
}

#[track_caller]
fn steps(block: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix(PROMPT);
        let mut command =
            command.unwrap_or_else(|| panic!("no command comes before {line:?}")).to_owned();
        while command.ends_with('\\') {
            command.push('\n');
            command.push_str(lines.next().expect("the command goes on"));
        }
        let mut shown = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with(PROMPT)) {
            shown.push(line);
        }
        steps.push(Step { command, shown: shown.join("\n") });
    }
    steps
}

/// Compares an output with the document, which may leave out headers.
fn compare(shown: &str, output: &str) -> Result<(), String> {
    if !shown.starts_with("HTTP/") {
        let is_same = shown == output.strip_suffix('\n').unwrap_or(output);
        return if is_same { Ok(()) } else { Err("another answer is shown".to_owned()) };
    }
    let (shown_head, shown_body) = shown.split_once("\n\n").unwrap_or((shown, ""));
    let (head, body) = output.split_once("\r\n\r\n").ok_or("no head was answered")?;
    let mut shown_lines = shown_head.lines();
    let mut lines = head.split("\r\n");
    if shown_lines.next() != lines.next() {
        return Err("another status is shown".to_owned());
    }
    let headers: Vec<&str> = lines.collect();
    if let Some(wrong) = shown_lines.find(|line| !headers.contains(line)) {
        return Err(format!("no such header was answered: {wrong}"));
    }
    compare(shown_body, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_matches_the_document_except_for_omitted_headers() {
        let output = "HTTP/1.1 200 OK\r\netag: \"7\"\r\ndate: today\r\n\r\n{\"id\":1}\n";
        assert_eq!(compare("HTTP/1.1 200 OK\netag: \"7\"\n\n{\"id\":1}", output), Ok(()));
        for wrong in [
            "HTTP/1.1 201 OK\netag: \"7\"\n\n{\"id\":1}",
            "HTTP/1.1 200 OK\netag: \"8\"\n\n{\"id\":1}",
            "HTTP/1.1 200 OK\netag: \"7\n\n{\"id\":1}",
            "HTTP/1.1 200 OK\nlink: x\n\n{\"id\":1}",
            "HTTP/1.1 200 OK\netag: \"7\"\n\n{\"id\":2}",
            "HTTP/1.1 200 OK\netag: \"7\"",
            "{\"id\":1}",
            "",
        ] {
            assert!(compare(wrong, output).is_err(), "{wrong:?}");
        }
        assert!(compare("HTTP/1.1 200 OK", "ok").is_err());
        assert_eq!(compare("ok", "ok\n"), Ok(()));
        assert!(compare("ok", "ok\n\n").is_err());
        assert!(compare("", "ok").is_err());
    }

    #[test]
    fn a_block_has_commands_and_their_output() {
        let block = "$ one \\\n    two\n1\n\n2\n$ three\n$ four\n4\n";
        let steps: Vec<_> =
            steps(block).into_iter().map(|step| (step.command, step.shown)).collect();
        let wanted = [("one \\\n    two", "1\n\n2"), ("three", ""), ("four", "4")];
        assert_eq!(steps, wanted.map(|(command, shown)| (command.to_owned(), shown.to_owned())));
    }
}
