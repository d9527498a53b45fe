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
            let names = names_below(&text, "Commands:").filter(|name| *name != "help");
            let below: Vec<_> =
                names.map(|name| [&words[..], &[name.to_owned()]].concat()).collect();
            waiting.extend(below.into_iter().rev());
            found.push(Self { words, text });
        }
        found
    }

    /// Its long flags, as the help lists them.
    pub fn flags(&self) -> BTreeSet<String> {
        let options = names_below(&self.text, "Options:");
        options.filter(|name| name.starts_with("--")).map(str::to_owned).collect()
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
    let mut process = launch.arguments(arguments.iter().copied()).spawn();
    process.assert_exit_code(0);
    process.stdout()
}

/// The long flags or the subcommands in a list of the help.
fn names_below<'help>(help: &'help str, heading: &'static str) -> impl Iterator<Item = &'help str> {
    let lines = help.lines().skip_while(move |line| *line != heading).skip(1);
    lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let mut words = line.split_whitespace().map(|word| word.trim_end_matches(','));
        words.find(|word| !word.starts_with('-') || word.starts_with("--"))
    })
}

/// The environment variables that the program reads.
pub fn variables() -> BTreeSet<String> {
    let help = printed(&["--help"]);
    let names = help.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next());
    let all = names.chain(OTHER_VARIABLES.into_iter().filter(|name| help.contains(name)));
    all.map(str::to_owned).collect()
}

/// The default of a flag.
#[track_caller]
pub fn default_of(flag: &str) -> String {
    let help = printed(&["--help"]);
    let line = help.lines().find(|line| line.trim_start().starts_with(flag)).expect("the flag");
    let (_, default) = line.split_once("[default: ").expect("a default");
    default.trim_end_matches(']').to_owned()
}
