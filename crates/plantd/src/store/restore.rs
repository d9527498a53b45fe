//! `plantd restore`.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::Args;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::exit::Stop;
use crate::files::data_folder::plants_folder;
use crate::print::say;
use crate::store::archive::{
    ArchiveOptions, describe, describe_left_out, open_backup, stop_of_open, stop_of_restore,
};
use crate::transfer::progress_bar;

/// The mode of a data folder: for its owner alone.
const DATA_FOLDER_MODE: u32 = 0o700;

/// The name of the folder of the plants until all of them are there.
const UNFINISHED: &str = "plants.unfinished";

/// A folder that every new ext4 file system has.
const LOST_AND_FOUND: &str = "lost+found";

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The folder gets all plants or none. It has no tokens: put tokens.json into it, or the first start makes a \
    new token. The restored plants keep their entity tags; every cursor of an event is invalid.\n\
    Exit code 1: the backup or the archive is damaged or not whole. 74: a file or a folder cannot be used."
)]
pub(crate) struct RestoreOptions {
    /// The backup (plantd backup); - is standard input
    file: PathBuf,

    /// The folder to make; one that is there must be empty
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    #[command(flatten)]
    archive: ArchiveOptions,
}

pub(crate) fn run(options: &RestoreOptions) -> Result<(), Stop> {
    let begun = Instant::now();
    let data = UnfinishedData::make(&options.data)?;
    let backup = open_backup(&options.file).map_err(stop_of_open)?;

    let progress = progress_bar::of_share();
    let show = |share| progress_bar::show_share(&progress, share);
    let restored = backup.restore(&data.plants(), options.archive.moment().as_ref(), &show);
    progress.finish_and_clear();
    let restored = restored.map_err(stop_of_restore)?;
    data.finish()?;

    let summary = progress_bar::summary(restored.plants, begun.elapsed());
    say(&format!("restored {summary}, up to {}", describe(&restored.position)));
    if let Some(left_out) = describe_left_out(&restored.left_out) {
        say(&left_out);
    }
    Ok(())
}

/// A data folder that is being restored. Dropping it removes what was restored, unless [`Self::finish`] has succeeded.
struct UnfinishedData<'a> {
    data: &'a Path,
    /// Whether the folder was not there before.
    is_new: bool,
    is_finished: bool,
    /// The locked folder: no other restore writes to it.
    _lock: File,
}

impl<'a> UnfinishedData<'a> {
    /// Makes the folder, or takes an empty one.
    fn make(data: &'a Path) -> anyhow::Result<Self> {
        let is_new = match DirBuilder::new().mode(DATA_FOLDER_MODE).create(data) {
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => false,
            made => made.map(|()| true).with_context(|| cannot_restore(data))?,
        };
        let lock = File::open(data).with_context(|| cannot_restore(data))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => bail!("another restore writes to {}", data.display()),
            locked => locked.with_context(|| cannot_restore(data))?,
        }
        clear(data).with_context(|| cannot_restore(data))?;
        Ok(Self { data, is_new, is_finished: false, _lock: lock })
    }

    /// The folder of the plants that are being restored.
    fn plants(&self) -> PathBuf {
        self.data.join(UNFINISHED)
    }

    /// Puts the plants, which are synced, in their place.
    fn finish(mut self) -> anyhow::Result<()> {
        let finish = || -> io::Result<()> {
            let plants = plants_folder(self.data);
            match renameat_with(CWD, self.plants(), CWD, &plants, RenameFlags::NOREPLACE) {
                // NFS does not support the flag.
                Err(Errno::INVAL | Errno::NOSYS) if !plants.try_exists()? => {
                    fs::rename(self.plants(), plants)?;
                }
                renamed => renamed?,
            }
            File::open(self.data)?.sync_all()
        };
        finish().with_context(|| cannot_restore(self.data))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for UnfinishedData<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_dir_all(self.plants());
            if self.is_new {
                let _ = fs::remove_dir(self.data);
            }
        }
    }
}

/// Removes the plants that a killed restore has left. Fails, and removes nothing, if the folder holds anything else.
fn clear(data: &Path) -> anyhow::Result<()> {
    let mut is_left = false;
    for entry in fs::read_dir(data)? {
        let name = entry?.file_name();
        if name == UNFINISHED {
            is_left = true;
        } else if name != LOST_AND_FOUND {
            bail!("a restore writes over nothing, and {name:?} is in it; choose another folder");
        }
    }
    if is_left {
        fs::remove_dir_all(data.join(UNFINISHED))?;
    }
    Ok(())
}

fn cannot_restore(data: &Path) -> String {
    format!("cannot restore into the folder {}", data.display())
}
