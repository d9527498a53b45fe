//! `cargo xtask deb`: makes the Debian package of a built program by cargo-deb. `crates/plantd/Cargo.toml` lists what
//! is in the package.

use std::fs::{self, File};
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use anyhow::Context as _;
use cargo_metadata::Metadata;
use clap::Args;

use crate::{cargo, packages, tools};

/// The shells, and the names that their completions must have.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "plantd.bash"), ("fish", "plantd.fish"), ("zsh", "_plantd")];

#[derive(Args)]
pub(crate) struct Arguments {
    /// The program
    program: PathBuf,
    /// The version of the package
    #[arg(long)]
    version: String,
    /// The file of the package
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

/// Makes a package for the tests, without time for compression.
pub(crate) fn run(Arguments { program, version, output }: &Arguments) -> anyhow::Result<()> {
    make(&cargo::workspace()?, program, output, &["--fast", "--deb-version", version])
}

/// Installs what [`make`] needs.
pub(crate) fn install(workspace: &Metadata) -> anyhow::Result<PathBuf> {
    tools::ensure(&[tools::DPKG_SHLIBDEPS, tools::STRIP])?;
    Ok(packages::CARGO_DEB.ensure(workspace)?.join("bin/cargo-deb").into())
}

/// Makes the package of a program with these options of cargo-deb. The output is a file, or a folder for a file with
/// the usual name.
pub(crate) fn make(
    workspace: &Metadata,
    program: &Path,
    output: &Path,
    options: &[&str],
) -> anyhow::Result<()> {
    let mut deb = Command::new(install(workspace)?);
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    // Where cargo-deb expects a release build of the program, and the files made from it.
    let built = folder.path().join("release");
    fs::create_dir(&built)?;
    fs::copy(program, built.join("plantd")).context("cannot copy the program")?;
    write_manual(&absolute(program)?, &built)?;
    deb.args(["deb", "--no-build", "--strip", "--package", "plantd", "--output"]);
    deb.arg(absolute(output)?).args(options).current_dir(&workspace.workspace_root);
    deb.env("SOURCE_DATE_EPOCH", source_date(workspace)?);
    cargo::run(deb.env("CARGO_TARGET_DIR", folder.path()))
}

/// Writes the manual pages and the completions of a program into the folders `man` and `completions`.
pub(crate) fn write_manual(program: &Path, folder: &Path) -> anyhow::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    cargo::run(Command::new(program).arg("man").arg(&man))?;
    // Without a name and a time, the bytes depend on the page alone.
    let mut gzip = Command::new("gzip");
    gzip.args(["--no-name", "--best", "--recursive"]).arg(man);
    cargo::run(&mut gzip)?;
    fs::create_dir(&completions)?;
    for (shell, name) in COMPLETIONS {
        let file = File::create(completions.join(name))?;
        cargo::run(Command::new(program).args(["completions", shell]).stdout(file))?;
    }
    Ok(())
}

/// The time of the last commit, in seconds since 1970, for all files that are made; 0 in sources without git.
pub(crate) fn source_date(workspace: &Metadata) -> anyhow::Result<String> {
    if !workspace.workspace_root.join(".git").exists() {
        return Ok("0".to_owned());
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(&workspace.workspace_root);
    Ok(cargo::run_for_output(&mut git)?.trim_end().to_owned())
}
