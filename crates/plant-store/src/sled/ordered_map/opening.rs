//! Guards against the hazards of opening sled.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use crate::sled::config::{LOCK_PATIENCE, LOCK_RETRY_INTERVAL, SledConfig};
use crate::sled::layout::{FORMAT, FORMAT_KEY};
use crate::sled::ordered_map::guarded::{advise, guarded};

/// How much of sled's file is read at a time, in bytes: less than a processor's own cache.
const READ_BYTES: usize = 256 * 1024;

/// A kill while sled writes a snapshot can leave an unfinished one, which would fail the next open.
pub(in crate::sled) fn move_unfinished_snapshots_aside(
    sled_directory: &Path,
) -> anyhow::Result<()> {
    for entry in fs::read_dir(sled_directory)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
        if name.starts_with("snap.") && name.ends_with(".generating") {
            let aside = path.with_file_name(format!("aside.{name}"));
            fs::rename(&path, &aside)?;
            log::warn!("moved an unfinished snapshot aside, to {}", aside.display());
        }
    }
    Ok(())
}

/// Makes each write to sled's file synchronous, as `chattr +S` does. sled counts a write as durable after
/// `sync_file_range`, which leaves it in the disk's volatile cache, and then overwrites what it replaces.
pub(in crate::sled) fn make_writes_synchronous(file: &File, path: &Path) {
    let set = ioctl_getflags(file).and_then(|flags| {
        if flags.contains(IFlags::SYNC) {
            Ok(())
        } else {
            ioctl_setflags(file, flags | IFlags::SYNC)
        }
    });
    if let Err(cause) = set {
        log::warn!(
            "this file system cannot make writes to {} synchronous ({cause}); after a power cut the \
             database may be damaged, and have to be restored from a backup",
            path.display()
        );
    }
}

/// Reads all of sled's file. sled treats an unreadable part as empty and overwrites it; here an unreadable part is an
/// error, and the file stays unchanged.
pub(in crate::sled) fn check_readable(path: &Path) -> anyhow::Result<()> {
    let read = || {
        let length = fs::metadata(path)?.len();
        let readers = thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
        let part = length.div_ceil(readers).max(1);
        let read_from = |begin| {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(begin))?;
            let mut file = BufReader::with_capacity(READ_BYTES, file.take(part));
            io::copy(&mut file, &mut io::sink())
        };
        thread::scope(|scope| {
            let begins = (0..readers).map(|reader| reader * part);
            let read = begins
                .map(|begin| thread::Builder::new().spawn_scoped(scope, move || read_from(begin)));
            let reading: Vec<_> = read.collect();
            let panicked = |_| Err(io::Error::other("a reader panicked"));
            reading
                .into_iter()
                .try_for_each(|reader| reader?.join().unwrap_or_else(panicked).map(drop))
        })
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

pub(in crate::sled) fn open_sled(
    config: &SledConfig,
    sled_directory: &Path,
) -> anyhow::Result<sled::Db> {
    let sled_config = sled::Config::new()
        .path(sled_directory)
        .cache_capacity(config.cache_mib.saturating_mul(1024 * 1024))
        .mode(sled::Mode::HighThroughput);
    let started = Instant::now();
    loop {
        match sled_config.open() {
            Ok(db) => return Ok(db),
            // sled holds its lock for a moment after a close.
            Err(sled::Error::Io(cause))
                if cause.to_string().contains("could not acquire lock")
                    && started.elapsed() < LOCK_PATIENCE =>
            {
                thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(cause) => return Err(cause.into()),
        }
    }
}

pub(in crate::sled) fn check_format(db: &sled::Db) -> anyhow::Result<()> {
    let read = || {
        let value = db.get(FORMAT_KEY).context("the format number cannot be read")?;
        let value = value.context(
            "the format number is missing: this is no plant store, or most of it is lost",
        )?;
        let bytes = value.as_ref().try_into().context("the format number is damaged")?;
        Ok(u32::from_be_bytes(bytes))
    };
    let format = guarded(read).map_err(advise)?;
    ensure!(
        format == FORMAT,
        "the database has format {format}, and this version reads format {FORMAT}; \
         export the plants with the version that wrote it, and import them with this one"
    );
    Ok(())
}
