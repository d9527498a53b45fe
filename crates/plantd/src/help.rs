//! The help of the program, which lists the subcommands in groups.

use clap::Command;

/// The subcommands of each group. Those in no group are listed last.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Server", &["serve", "health"]),
    ("Plants", &["get", "list", "history", "batch", "import", "export", "events"]),
    ("Store", &["backup", "verify", "restore", "archive", "migrate"]),
    ("Tokens", &["token"]),
    ("Webhooks", &["webhook"]),
];

const OTHER: &str = "Other";

/// The widest line of a help, in columns.
pub(crate) const MAX_COLUMNS: usize = 80;

/// The program with a help in groups. clap knows only one list of subcommands, so they are hidden from it.
pub(crate) fn grouped(mut command: Command) -> Command {
    // Adds the subcommand `help`.
    command.build();
    let groups = groups(&command);
    command.mut_subcommands(|subcommand| subcommand.hide(true)).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}{{after-help}}"
    ))
}

/// The groups, each with an empty line at its end.
fn groups(command: &Command) -> String {
    let is_in_group =
        |name: &&str| GROUPS.into_iter().any(|(_, subcommands)| subcommands.contains(name));
    let names = command.get_subcommands().map(Command::get_name);
    let others: Vec<&str> = names.filter(|name| !is_in_group(name)).collect();
    let groups = GROUPS.into_iter().chain([(OTHER, &others[..])]);
    groups.map(|(heading, names)| group(command, heading, names)).collect()
}

fn group(command: &Command, heading: &str, names: &[&str]) -> String {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let all = command.get_subcommands().map(|subcommand| subcommand.get_name().len());
    let width = all.max().unwrap_or_default();
    let subcommands = names.iter().filter_map(|name| command.find_subcommand(name));
    let rows = subcommands.map(|subcommand| {
        let about = subcommand.get_about().cloned().unwrap_or_default();
        format!("  {literal}{:width$}{literal:#}  {about}\n", subcommand.get_name())
    });
    format!("{header}{heading}:{header:#}\n{}\n", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::Cli;

    #[test]
    fn each_subcommand_of_a_group_exists() {
        let command = Cli::documented();
        for name in GROUPS.into_iter().flat_map(|(_, names)| names) {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }
}
