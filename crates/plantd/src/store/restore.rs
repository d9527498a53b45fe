//! `plantd restore`.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use plant_store::BackupFile;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use crate::exit::Stop;
use crate::files::data_folder::plants_folder;
use crate::files::directory_entry::folder_of;
use crate::store::archive::{ArchiveOptions, describe, stop_of_open, stop_of_restore};
use crate::transfer::output::say;
use crate::transfer::progress_bar;

/// The mode of a data folder: for its owner alone.
const DATA_FOLDER_MODE: u32 = 0o700;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The folder is whole or not there. It has no tokens: put tokens.json into it, or the first start makes a \
    new token.\nThe restored plants keep their entity tags; every cursor of an event is invalid.\n\
    Exit code 1: the backup or the archive is damaged or not whole. 74: a file or a folder cannot be used."
)]
pub(crate) struct RestoreOptions {
    /// The backup (plantd backup)
    file: PathBuf,

    /// The folder to make, which must not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    #[command(flatten)]
    archive: ArchiveOptions,
}

pub(crate) fn run(options: &RestoreOptions) -> Result<(), Stop> {
    let data = &options.data;
    let begun = Instant::now();
    let unfinished = make_unfinished(data).map_err(|cause| cannot_make(data, cause))?;
    let backup = BackupFile::open(&options.file).map_err(stop_of_open)?;

    let progress = progress_bar::of_share();
    let show = |share| progress_bar::show_share(&progress, share);
    let plants = plants_folder(unfinished.path());
    let restored = backup.restore(&plants, options.archive.moment().as_ref(), &show);
    progress.finish_and_clear();
    let restored = restored.map_err(stop_of_restore)?;
    put_in_place(unfinished, data).map_err(|cause| cannot_make(data, cause))?;

    let summary = progress_bar::summary(restored.plants, begun.elapsed());
    say(&format!("restored {summary}, up to {}", describe(&restored.position)));
    Ok(())
}

/// A folder beside the one that is to be made. It disappears unless it is put in its place.
fn make_unfinished(data: &Path) -> io::Result<TempDir> {
    if data.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut prefix = data.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
    prefix.push(".");
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".unfinished")
        .permissions(Permissions::from_mode(DATA_FOLDER_MODE))
        .tempdir_in(folder_of(data))
}

/// Gives a synced folder its name. Fails if something has that name meanwhile.
fn put_in_place(unfinished: TempDir, data: &Path) -> io::Result<()> {
    renameat_with(CWD, unfinished.path(), CWD, data, RenameFlags::NOREPLACE)?;
    let _ = unfinished.keep();
    File::open(folder_of(data))?.sync_all()
}

fn cannot_make(data: &Path, cause: io::Error) -> Stop {
    let data = data.display();
    Stop::Io(match cause.kind() {
        io::ErrorKind::AlreadyExists => anyhow!(
            "{data} exists, and a restore writes over nothing; choose another folder, or move this one away"
        ),
        _ => anyhow::Error::from(cause).context(format!("cannot make the folder {data}")),
    })
}
