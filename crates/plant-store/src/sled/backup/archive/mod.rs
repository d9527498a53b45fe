//! Archives: folders with the changes of a database, piece by piece, so that a backup can be brought up to a later moment.
//!
//! A piece is a file with consecutive groups of the write-ahead log: a [`Piece`], sealed by a checksum. Its name says of
//! which log the groups are, and the numbers of the first and the last change. A folder may have the pieces of several logs,
//! because a restored database begins a new one.

pub(crate) mod reader;
pub(crate) mod thread;
mod writer;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::StoreFailure;
use crate::format::Format;
use crate::sled::commit::change::ChangeGroup;
use crate::sled::files::sync_folder;
use crate::sled::health::disk_space::MIB;
use crate::sled::keys::MAX_SEQUENCE;
use crate::sled::regular_file::{create, remove_if_there};
use crate::sled::sealed::Seal;

const FORMAT: Format = Format { name: "the piece of an archive", oldest: 1, newest: 1 };

const SEAL: Seal = Seal { magic: *b"plpiece2", name: "a piece of an archive" };

/// No piece is larger: it has 8 MiB of groups, and one more, which fits into a segment of the write-ahead log.
const PIECE_MAX_BYTES: u64 = 32 * MIB;

/// The extension of a piece's file.
const EXTENSION: &str = "wal";

#[derive(Serialize, Deserialize)]
struct Piece<'a> {
    event_log: u32,
    /// Groups as the write-ahead log has them.
    #[serde(borrow)]
    payloads: Vec<&'a [u8]>,
}

/// What the name of a piece says. Pieces of one log sort by their changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PieceName {
    /// The name of the log of events, as in cursors.
    pub(crate) event_log: u32,
    pub(crate) first_sequence: u64,
    pub(crate) last_sequence: u64,
}

impl PieceName {
    fn file_name(&self) -> String {
        let Self { event_log, first_sequence, last_sequence } = self;
        format!("{event_log:08x}-{first_sequence:019}-{last_sequence:019}.{EXTENSION}")
    }

    /// Parses the name of a piece. Other files may be in the folder.
    fn parse(file_name: &str) -> Option<Self> {
        let (event_log, sequences) =
            file_name.strip_suffix(EXTENSION)?.strip_suffix('.')?.split_once('-')?;
        let (first, last) = sequences.split_once('-')?;
        let name = Self {
            event_log: u32::from_str_radix(event_log, 16).ok()?,
            first_sequence: first.parse().ok()?,
            last_sequence: last.parse().ok()?,
        };
        let is_name = name.file_name() == file_name && name.last_sequence <= MAX_SEQUENCE;
        is_name.then_some(name)
    }

    pub(crate) fn path(&self, archive: &Path) -> PathBuf {
        archive.join(self.file_name())
    }
}

/// The pieces in an archive, those of each log from its oldest to its newest.
pub(crate) fn pieces(archive: &Path) -> anyhow::Result<Vec<PieceName>> {
    let read = || {
        let mut pieces = Vec::new();
        for entry in fs::read_dir(archive)? {
            pieces.extend(entry?.file_name().to_str().and_then(PieceName::parse));
        }
        anyhow::Ok(pieces)
    };
    let mut pieces =
        read().with_context(|| format!("cannot read the archive {}", archive.display()))?;
    pieces.sort_unstable();
    Ok(pieces)
}

/// Writes a piece. When this returns, the piece is on disk. Only one writer may be at work for each log.
pub(crate) fn write_piece(
    archive: &Path,
    name: PieceName,
    payloads: &[Vec<u8>],
) -> anyhow::Result<()> {
    let payloads = payloads.iter().map(Vec::as_slice).collect();
    let piece = Piece { event_log: name.event_log, payloads };
    let bytes = SEAL.seal(&FORMAT.encode(&piece, 0)?);
    let (path, new) = (name.path(archive), archive.join(format!("{:08x}.new", name.event_log)));
    let write = || {
        remove_if_there(&new)?;
        let mut file = create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        anyhow::Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    sync_folder(archive)
}

/// Reads a piece. Fails unless the piece has exactly what its name says.
pub(crate) fn read_piece(archive: &Path, name: PieceName) -> anyhow::Result<Vec<ChangeGroup>> {
    let path = name.path(archive);
    let read = || {
        let metadata = fs::metadata(&path)?;
        ensure!(
            metadata.is_file() && metadata.len() <= PIECE_MAX_BYTES,
            "it is no file of at most {PIECE_MAX_BYTES} bytes"
        );
        groups_in(name, SEAL.open(&fs::read(&path)?)?)
    };
    read().with_context(|| format!("{} cannot be used", path.display()))
}

/// The groups in the content of a piece.
pub(crate) fn groups_in(name: PieceName, content: &[u8]) -> anyhow::Result<Vec<ChangeGroup>> {
    let Piece { event_log, payloads } = FORMAT.decode(content)?;
    let groups: Vec<_> =
        payloads.into_iter().map(ChangeGroup::decode).collect::<anyhow::Result<_>>()?;
    let mut next = name.first_sequence;
    for group in &groups {
        ensure!(group.first_sequence == next, "its changes are not those that its name says");
        next = group.last_sequence() + 1;
    }
    ensure!(
        event_log == name.event_log && next == name.last_sequence + 1,
        "its changes are not those that its name says"
    );
    Ok(groups)
}

/// What [`prune_archive`] has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many pieces.
    pub pieces: u64,
    /// Their size, in bytes.
    pub bytes: u64,
}

/// Removes the pieces of an archive that were written longer than `keep` ago. A backup that is younger needs none of them.
/// The newest piece of each log stays. A server may be writing to the archive.
///
/// # Errors
///
/// When the archive cannot be read, or a piece cannot be removed.
pub fn prune_archive(archive: &Path, keep: Duration) -> Result<Pruned, StoreFailure> {
    prune(archive, keep).map_err(StoreFailure::new)
}

fn prune(archive: &Path, keep: Duration) -> anyhow::Result<Pruned> {
    let pieces = pieces(archive)?;
    let mut pruned = Pruned::default();
    let now = SystemTime::now();
    for of_log in pieces.chunk_by(|one, next| one.event_log == next.event_log) {
        for piece in &of_log[..of_log.len() - 1] {
            let path = piece.path(archive);
            let metadata =
                fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?;
            // A time in the future is that of a new piece.
            let age = now.duration_since(metadata.modified()?).unwrap_or_default();
            if age <= keep {
                // Pieces go from the oldest on, so that no gap arises.
                break;
            }
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            pruned.pieces += 1;
            pruned.bytes += metadata.len();
        }
    }
    sync_folder(archive)?;
    Ok(pruned)
}
