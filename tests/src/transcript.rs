//! Commands with the answers that a document shows behind them.

use crate::document::Document;
use crate::shell::Shell;

/// What begins a command.
const PROMPT: &str = "$ ";

/// The commands of a document's `console` blocks, with what each of them is to answer.
///
/// A command begins with `$ ` and goes on behind a line that ends in `\`. What stands before the next one
/// is its output, of which a line end at its end counts for nothing.
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
    /// That of a document, which has no commands elsewhere.
    ///
    /// # Panics
    ///
    /// When a block does not begin with a command.
    #[must_use]
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

    /// Runs the commands one after the other in one shell, and claims that each of them answers what is
    /// shown.
    ///
    /// # Panics
    ///
    /// When one of them fails, or answers something else.
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

/// Whether the output is what is shown. Of the headers of an answer, those that are shown count.
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
    fn an_answer_is_as_it_is_shown_but_for_headers_that_are_not() {
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
    fn a_block_is_commands_with_what_they_answer() {
        let block = "$ one \\\n    two\n1\n\n2\n$ three\n$ four\n4\n";
        let steps: Vec<_> =
            steps(block).into_iter().map(|step| (step.command, step.shown)).collect();
        let wanted = [("one \\\n    two", "1\n\n2"), ("three", ""), ("four", "4")];
        assert_eq!(steps, wanted.map(|(command, shown)| (command.to_owned(), shown.to_owned())));
    }
}
