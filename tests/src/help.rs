//! What the program's help says about its command line.

use std::collections::BTreeSet;

use crate::launch::Launch;

/// The variables that the help names outside the list of options.
const OTHER_VARIABLES: [&str; 2] = ["PLANTD_TOKEN", "RUST_LOG"];

/// A subcommand, or the program itself, which has no words.
#[derive(Clone, Debug)]
pub struct CommandHelp {
    /// The words after `plantd`.
    pub words: Vec<String>,
    /// What `--help` prints.
    pub text: String,
}

impl CommandHelp {
    /// The program and all its subcommands, each before those below it.
    #[track_caller]
    pub fn all() -> Vec<Self> {
        let (mut found, mut waiting) = (Vec::new(), vec![Vec::<String>::new()]);
        while let Some(words) = waiting.pop() {
            let arguments = words.iter().map(String::as_str).chain(["--help"]);
            let text = printed(&arguments.collect::<Vec<_>>());
            let names =
                rows(&text).filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
            let names = names.filter(|name| *name != "help");
            let below: Vec<_> =
                names.map(|name| [&words[..], &[name.to_owned()]].concat()).collect();
            waiting.extend(below.into_iter().rev());
            found.push(Self { words, text });
        }
        found
    }

    /// Its long flags, as the help lists them.
    pub fn flags(&self) -> BTreeSet<String> {
        rows(&self.text).filter(|name| name.starts_with("--")).map(str::to_owned).collect()
    }
}

/// The output of a run that must end with 0.
#[track_caller]
pub fn printed(arguments: &[&str]) -> String {
    // The help shows the current values of variables.
    let launch = Launch::new()
        .without_environment("PLANTD_LISTEN")
        .without_environment("PLANTD_DRAIN_DELAY")
        .without_environment("PLANTD_TOKEN");
    launch.arguments(arguments.iter().copied()).run(0).stdout()
}

/// The headings of lists that are neither of subcommands nor of options.
const OTHER_LISTS: [&str; 2] = ["Arguments:", "Exit codes:"];

/// What each row of the lists of subcommands and options is about: the long flag, or the subcommand.
fn rows(help: &str) -> impl Iterator<Item = &str> {
    let mut is_in_list = false;
    let rows = help.lines().filter(move |line| {
        // A list may have empty lines between its rows.
        if !line.is_empty() && !line.starts_with(' ') {
            is_in_list = line.ends_with(':') && !OTHER_LISTS.contains(line);
        }
        // A text that needs several lines is indented further than a flag without a letter.
        let indent = line.len() - line.trim_start().len();
        is_in_list && [2, 6].contains(&indent)
    });
    rows.filter_map(|row| {
        let mut words = row.split_whitespace().map(|word| word.trim_end_matches(','));
        words.find(|word| !word.starts_with('-') || word.starts_with("--"))
    })
}

/// A help without its line breaks.
fn on_one_line(help: &str) -> String {
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The environment variables that the program reads.
pub fn variables() -> BTreeSet<String> {
    let help = on_one_line(&printed(&["--help"]));
    let names = help.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next());
    let all = names.chain(OTHER_VARIABLES.into_iter().filter(|name| help.contains(name)));
    all.map(str::to_owned).collect()
}

/// The default of a flag.
#[track_caller]
pub fn default_of(flag: &str) -> String {
    let help = on_one_line(&printed(&["--help"]));
    let (_, rest) = help.split_once(&format!(" {flag} ")).expect("the flag");
    let (_, default) = rest.split_once("[default: ").expect("a default");
    default.split_once(']').expect("its end").0.to_owned()
}
