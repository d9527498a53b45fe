//! What the program's help says about its command line.

use std::collections::BTreeSet;

use plantd_tests::Launch;

/// The variables that the help names outside the list of options.
const OTHER_VARIABLES: [&str; 2] = ["PLANTD_TOKEN", "RUST_LOG"];

/// A subcommand, or the program itself, which has no words.
pub(crate) struct Described {
    pub(crate) words: Vec<String>,
    pub(crate) flags: BTreeSet<String>,
}

/// What the program prints and then ends with 0.
#[track_caller]
pub(crate) fn printed(arguments: &[&str]) -> String {
    let mut process = Launch::new().arguments(arguments).spawn();
    process.assert_exit_code(0);
    process.stdout()
}

/// The program and all its subcommands.
pub(crate) fn described() -> Vec<Described> {
    let (mut found, mut waiting) = (Vec::new(), vec![Vec::<String>::new()]);
    while let Some(words) = waiting.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = printed(&arguments);
        for name in names_below(&help, "Commands:").filter(|name| *name != "help") {
            waiting.push([&words[..], &[name.to_owned()]].concat());
        }
        let options = names_below(&help, "Options:");
        let flags = options.filter(|name| name.starts_with("--")).map(str::to_owned).collect();
        found.push(Described { words, flags });
    }
    found
}

/// The long flags or the subcommands in a list of the help.
fn names_below<'help>(help: &'help str, heading: &str) -> impl Iterator<Item = &'help str> {
    let lines = help.lines().skip_while(move |line| *line != heading).skip(1);
    lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let mut words = line.split_whitespace().map(|word| word.trim_end_matches(','));
        words.find(|word| !word.starts_with('-') || word.starts_with("--"))
    })
}

/// The environment variables that the program reads.
pub(crate) fn variables() -> BTreeSet<String> {
    let help = printed(&["--help"]);
    let names = help.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next());
    let all = names.chain(OTHER_VARIABLES.into_iter().filter(|name| help.contains(name)));
    all.map(str::to_owned).collect()
}

/// The default of a flag.
#[track_caller]
pub(crate) fn default_of(flag: &str) -> String {
    let help = printed(&["--help"]);
    let line = help.lines().find(|line| line.trim_start().starts_with(flag)).expect("the flag");
    let (_, default) = line.split_once("[default: ").expect("a default");
    default.trim_end_matches(']').to_owned()
}
