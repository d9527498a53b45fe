//! `plantd completions` and `plantd man`: what shells and `man` know about the command line.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::Stop;

/// What each page says at its foot.
const SOURCE: &str = concat!("plantd ", env!("CARGO_PKG_VERSION"));

/// The completions of a command line for a shell.
pub(crate) fn completions(mut command: Command, shell: Shell) -> Vec<u8> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}

/// Writes a manual page for the program and one for each subcommand.
pub(crate) fn write_pages(command: Command, folder: &Path) -> Result<(), Stop> {
    let mut command = command.disable_help_subcommand(true);
    // Gives each subcommand its whole name, such as `plantd-token-create`.
    command.build();
    let written = fs::create_dir_all(folder).and_then(|()| write_page(command, folder));
    Ok(written.with_context(|| format!("cannot write manual pages into {}", folder.display()))?)
}

fn write_page(command: Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands() {
        write_page(subcommand.clone(), folder)?;
    }
    Man::new(command).source(SOURCE).generate_to(folder).map(|_| ())
}
