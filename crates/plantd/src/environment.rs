//! The variables of the environment. An empty one counts as unset, because `${VARIABLE:-}` in a composition sets a variable
//! even if nobody has given it a value.

use std::env;
use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::builder::Resettable;

/// The value of a variable; `None` if it is unset or empty.
pub(crate) fn variable(name: impl AsRef<OsStr>) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Detaches the options of a command, and of all commands below it, from variables that are empty: clap would read them.
pub(crate) fn without_empty_variables(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        if argument.get_env().is_some_and(|name| variable(name).is_none()) {
            argument.env(Resettable::Reset)
        } else {
            argument
        }
    });
    command.mut_subcommands(without_empty_variables)
}
