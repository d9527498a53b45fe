//! `cargo xtask release`: the files of a release. Their bytes depend on the sources and the tools (compiler, linker, tar, gzip)
//! alone, and neither on the folder nor on the time.

use std::env;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use cargo_metadata::camino::Utf8Path;
use cargo_metadata::{Metadata, MetadataCommand};

use crate::{cargo, deb, packages};

const PACKAGE: &str = "plantd";

/// The name of the file with the digests of all others.
const SUMS: &str = "SHA256SUMS";

/// The files of the checkout in the archive, beside the program and what is made from it.
const FILES: [&str; 10] = [
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "contrib/debian/nightly-backup",
    "contrib/debian/plantd-backup.service",
    "contrib/debian/plantd-backup.timer",
    "contrib/debian/plantd.env",
    "contrib/debian/plantd.service",
    "contrib/debian/plantd.sysusers",
];

/// Makes a release, and with `check` the same one again elsewhere.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    let mut status = Command::new("git");
    status.args(["status", "--porcelain"]).current_dir(&workspace.workspace_root);
    let changed = cargo::run_for_output(&mut status)?;
    ensure!(
        changed.is_empty(),
        "commit these changes first, whose date the release would not have:\n{changed}"
    );
    let tools = packages::RELEASE.ensure(&workspace)?.join("bin");
    let release = make(&workspace, &tools)?;
    if check {
        check_again(&workspace, &tools, &release)?;
    }
    print!("{}", fs::read_to_string(release.join(SUMS))?);
    println!("{}", release.display());
    Ok(())
}

fn make(workspace: &Metadata, tools: &Utf8Path) -> anyhow::Result<PathBuf> {
    let package = workspace.workspace_packages().into_iter().find(|it| it.name == PACKAGE);
    let version = &package.context("the workspace has no plantd")?.version;
    let toolchain = cargo::run_for_output(Command::new("rustc").arg("-vV"))?;
    let platform = toolchain.lines().find_map(|line| line.strip_prefix("host: "));
    let name = format!("{PACKAGE}-{version}-{}", platform.context("rustc names no platform")?);

    let program = build(workspace, tools)?;
    let release = workspace.target_directory.join(format!("release-{version}"));
    if release.exists() {
        fs::remove_dir_all(&release)?;
    }
    fs::create_dir(&release)?;
    archive(workspace, &program, &name, &release)?;
    deb::make(workspace, &program, release.as_std_path(), &[])?;
    let bill = bill_of_materials(workspace, tools)?;
    fs::write(release.join(format!("{name}.cdx.json")), bill)?;

    let mut sums = Command::new("sh");
    let script = format!("LC_ALL=C sha256sum {PACKAGE}* > {SUMS}");
    cargo::run(sums.args(["-c", &script]).current_dir(&release))?;
    Ok(release.into())
}

/// Builds the program with the list of its dependencies inside, which `cargo audit bin` reads.
fn build(workspace: &Metadata, tools: &Utf8Path) -> anyhow::Result<PathBuf> {
    // A folder of its own, because other flags build everything again.
    let target = workspace.target_directory.join("release-build");
    let renamed = renamed_folders(workspace)?;
    let flags = |flag: &str, separator: &str| {
        let flag = |(from, to): &(String, &str)| format!("{flag}={from}={to}");
        renamed.iter().map(flag).collect::<Vec<_>>().join(separator)
    };
    let mut build = cargo::command(&workspace.workspace_root);
    build.args(["build", "--release", "--locked", "--package", PACKAGE]);
    // What `cargo auditable build --locked` sets, but for the name of the wrapper: that would have its folder, which cargo
    // hashes into the names of symbols.
    build.env("RUSTC_WORKSPACE_WRAPPER", "cargo-auditable").env(
        "CARGO_AUDITABLE_ORIG_ARGS",
        r#"{"offline":false,"locked":true,"frozen":false,"config":[]}"#,
    );
    let folders = env::var_os("PATH").unwrap_or_default();
    let folders = iter::once(PathBuf::from(tools)).chain(env::split_paths(&folders));
    build.env("PATH", env::join_paths(folders)?);
    build.arg("--target-dir").arg(&target);
    build.env("CARGO_ENCODED_RUSTFLAGS", flags("--remap-path-prefix", "\u{1f}"));
    // ring compiles C.
    build.env("CFLAGS", flags("-ffile-prefix-map", " "));
    cargo::run(build.env("SOURCE_DATE_EPOCH", deb::source_date(workspace)?))?;
    Ok(target.join("release").join(PACKAGE).into())
}

/// The folders whose paths would be in the program, and what is there instead.
fn renamed_folders(workspace: &Metadata) -> anyhow::Result<[(String, &'static str); 3]> {
    let all = MetadataCommand::new().current_dir(&workspace.workspace_root).exec()?;
    let dependency = all.packages.iter().find(|package| package.source.is_some());
    let registry = dependency.and_then(|package| package.manifest_path.ancestors().nth(2));
    let sysroot = cargo::run_for_output(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok([
        (sysroot.trim_end().to_owned(), "/rust"),
        (registry.context("no dependency is from a registry")?.to_string(), "/crates"),
        (workspace.workspace_root.to_string(), "/plantd"),
    ])
}

/// Packs the program with its documents and its unit.
fn archive(
    workspace: &Metadata,
    program: &Path,
    name: &str,
    release: &Utf8Path,
) -> anyhow::Result<()> {
    let staging = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = staging.path().join(name);
    fs::create_dir(&folder)?;
    fs::copy(program, folder.join(PACKAGE))?;
    deb::write_manual(program, &folder)?;
    for file in FILES.map(Utf8Path::new) {
        let copy = folder.join(file.file_name().unwrap_or_default());
        fs::copy(workspace.workspace_root.join(file), copy).with_context(|| file.to_string())?;
    }
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
    tar.arg("--mode=u=rwX,go=rX").arg(format!("--mtime=@{}", deb::source_date(workspace)?));
    tar.args(["--use-compress-program", "gzip --no-name --best", "--create", "--file"]);
    tar.arg(release.join(format!("{name}.tar.gz"))).arg("--directory").arg(staging.path());
    cargo::run(tar.arg(name))
}

/// The program's dependencies and their licenses, as CycloneDX.
fn bill_of_materials(workspace: &Metadata, tools: &Utf8Path) -> anyhow::Result<String> {
    const FILE: &str = "release-bill-of-materials";
    let mut cyclonedx = Command::new(tools.join("cargo-cyclonedx"));
    cyclonedx.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"]);
    cyclonedx.args(["--override-filename", FILE]).current_dir(&workspace.workspace_root);
    // With a date, it chooses no random serial number.
    cargo::run(cyclonedx.env("SOURCE_DATE_EPOCH", deb::source_date(workspace)?))?;
    // It writes a file into the folder of each member.
    let mut bill = None;
    for package in workspace.workspace_packages() {
        let path = package.manifest_path.with_file_name(format!("{FILE}.json"));
        if package.name == PACKAGE {
            bill = Some(fs::read_to_string(&path)?);
        }
        fs::remove_file(path)?;
    }
    let bill = bill.context("there is no bill of materials")?;
    Ok(bill.replace(workspace.workspace_root.as_str(), "/plantd"))
}

/// Makes the release again from a copy of the last commit in another folder, and compares the digests. Then installs the
/// program as docs/operations.md shows.
fn check_again(workspace: &Metadata, tools: &Utf8Path, release: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(env::temp_dir()).context("cannot make a temporary folder")?;
    let copy = folder.path().join("another-folder");
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet"]).arg(&workspace.workspace_root).arg(&copy);
    cargo::run(&mut clone)?;
    // CARGO_TARGET_DIR would be the same folder.
    let other = MetadataCommand::new().current_dir(&copy).env_remove("CARGO_TARGET_DIR").exec()?;
    let again = make(&other, tools)?;
    let sums = |release: &Path| fs::read_to_string(release.join(SUMS));
    let (first, second) = (sums(release)?, sums(&again)?);
    ensure!(first == second, "two releases of one commit differ:\n{first}{second}");

    let mut install = cargo::command(&copy);
    install.args(["install", "--quiet", "--locked", "--path", "crates/plantd", "--root"]);
    cargo::run(install.arg(folder.path()))?;
    cargo::run(Command::new(folder.path().join("bin/plantd")).arg("--version"))
}
