//! Seals a table: verifies it, and makes its files final and durable.
//!
//! sled writes to its files even when it opens a database. After some opens, it writes only bytes that are already
//! there. A table is sealed once an open and a close have left every byte of its files as it was. Then the files can
//! have a checksum, and no later open can harm them.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail, ensure};
use xxhash_rust::xxh3::Xxh3Default;

use super::database::{Database, FILL_CACHE_BYTES, SEGMENT_BYTES, of_disk};
use super::summary::{Summary, TableMetadata, check_contents};
use crate::fault;
use crate::sled::regular_file::open_own;

/// The most opens until the files of a table no longer change. The first open completes what the fill has left, and the
/// second what the verification has left.
const OPENS_MAX: usize = 8;

/// [`SEGMENT_BYTES`] in the type of the lengths of files.
const SEGMENT: u64 = SEGMENT_BYTES as u64;

/// The size of a read, in bytes.
const READ_BYTES: usize = 1024 * 1024;

/// Called whenever the making of a table advances. An error abandons the table.
pub(crate) type Advances = Arc<dyn Fn() -> anyhow::Result<()> + Send + Sync>;

/// A table that is filled and closed, but not sealed.
pub(crate) struct Unsealed {
    pub(super) folder: PathBuf,
    pub(super) summary: Summary,
    pub(super) advances: Advances,
}

impl Unsealed {
    /// Verifies the table, makes its files final and durable, and moves it to `place`. The caller must sync the folder
    /// of `place` before the manifest names the table.
    pub(crate) fn seal(self, number: u64, place: &Path) -> anyhow::Result<TableMetadata> {
        let Self { folder, summary, advances } = self;
        let seal = || {
            fault::point("before-table-seal");
            let database = Database::open(&folder, FILL_CACHE_BYTES)?;
            check_contents(&database, &summary, &*advances)?;
            database.close()?;
            let (bytes, checksum) = final_files(&folder, &*advances)?;
            fault::point("before-table-sync");
            sync_files(&folder, &*advances)?;
            fault::point("after-table-sync");
            fs::rename(&folder, place)?;
            anyhow::Ok(TableMetadata { number, bytes, checksum })
        };
        seal().map_err(of_disk).with_context(|| format!("cannot seal {}", folder.display()))
    }
}

/// Opens and closes a database until that changes no file. Returns the size and the checksum of its files.
fn final_files(
    folder: &Path,
    advances: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<(u64, u64)> {
    for _ in 0..OPENS_MAX {
        cut_free_segments(&folder.join(LOG))?;
        let before = checksum_of_files(folder, advances)?;
        Database::open(folder, FILL_CACHE_BYTES)?.close()?;
        if before == checksum_of_files(folder, advances)? {
            return Ok(before);
        }
    }
    bail!("sled changes it with each open")
}

/// Truncates the free segments, which have only zeros, at the end of sled's log. When sled opens a log with several
/// free segments, one of its threads truncates the last while another zeroes it, which leaves the length of the log to
/// chance.
fn cut_free_segments(log: &Path) -> io::Result<()> {
    let file = open_own(log, File::options().read(true).write(true))?;
    loop {
        let begin = file.metadata()?.len().saturating_sub(1) / SEGMENT * SEGMENT;
        if begin == 0 || read_from(&file, begin)?.iter().any(|byte| *byte != 0) {
            return Ok(());
        }
        file.set_len(begin)?;
    }
}

/// The bytes of a file from an offset on.
fn read_from(mut file: &File, begin: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a sealed table, and undoes a change to the last segment of sled's log: when sled cannot read that segment, it
/// takes the segment for torn and zeroes it. The segment has only padding, but the checksum of the files covers it.
pub(super) fn open_unchanged<T>(
    folder: &Path,
    open: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let file = open_own(&folder.join(LOG), File::options().read(true).write(true))?;
    let length = file.metadata()?.len();
    let begin = length.saturating_sub(SEGMENT);
    let segment = read_from(&file, begin)?;
    let opened = open();
    if opened.is_ok() && read_from(&file, begin).is_ok_and(|after| after == segment) {
        return opened;
    }
    // This also closes the table, if it was opened.
    let cause = opened.err().unwrap_or_else(|| anyhow!("an open of sled has changed its log"));
    file.write_all_at(&segment, begin)?;
    file.set_len(length)?;
    file.sync_all()?;
    Err(cause)
}

/// Removes the files of a database that sled can do without or make again.
pub(super) fn remove_indexes(folder: &Path) -> io::Result<()> {
    for path in files_in(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("snap.") || name == "conf" {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Compares the files of a table with the manifest.
pub(crate) fn check_files(
    folder: &Path,
    expected: &TableMetadata,
    advances: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (bytes, checksum) = checksum_of_files(folder, advances)
        .with_context(|| format!("cannot read the table {}", folder.display()))?;
    ensure!(
        (bytes, checksum) == (expected.bytes, expected.checksum),
        "the table {} is damaged: its files are not those that the manifest names",
        folder.display()
    );
    Ok(())
}

/// The size of all files in a folder, and the checksum over their names, lengths and bytes.
fn checksum_of_files(
    folder: &Path,
    advances: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<(u64, u64)> {
    let (mut hash, mut bytes) = (Xxh3Default::new(), 0);
    let mut buffer = vec![0; READ_BYTES];
    for path in files_in(folder)? {
        let name = path.strip_prefix(folder)?.as_os_str().as_encoded_bytes();
        let mut file = open_own(&path, File::options().read(true))
            .with_context(|| path.display().to_string())?;
        let length = file.metadata()?.len();
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(&length.to_le_bytes());
        bytes += length;
        loop {
            let read = match file.read(&mut buffer) {
                Ok(0) => break,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            hash.update(&buffer[..read]);
            advances()?;
        }
    }
    Ok((bytes, hash.digest()))
}

/// The file of sled's log.
const LOG: &str = "db";

/// The folder that sled makes for large values.
const BLOBS: &str = "blobs";

/// The files of a table, including those in [`BLOBS`], sorted by name.
fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.ends_with(BLOBS) {
            files.extend(files_in(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Syncs a folder and everything in it.
fn sync_files(folder: &Path, advances: &dyn Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_files(&path, advances)?;
        } else {
            File::open(&path)?.sync_all()?;
            advances()?;
        }
    }
    Ok(File::open(folder)?.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::super::writer::TableWriter;
    use super::*;

    #[test]
    fn a_seal_cuts_free_segments_off_the_end_of_the_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let [sealed, sealed_with_free] = [0, 2].map(|free_segments| {
            let [new, place] = ["new", "place"].map(|name| folder.path().join(name));
            let table = TableWriter::create(new.clone(), 0, Arc::new(|| Ok(()))).expect("a table");
            let table = table.finish((1, 1), 0).expect("writes");
            let log = File::options().write(true).open(new.join(LOG)).expect("opens");
            let length = log.metadata().expect("a file").len().next_multiple_of(SEGMENT);
            log.set_len(length + free_segments * SEGMENT).expect("extends");
            let metadata = table.seal(1, &place).expect("seals");
            fs::remove_dir_all(place).expect("removes");
            (metadata.bytes, metadata.checksum)
        });
        assert_eq!(sealed_with_free, sealed);
    }
}
