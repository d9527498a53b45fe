//! Archives: folders with the changes of a database in pieces, which bring a backup up to a later moment.
//!
//! A piece is a file with consecutive groups of the write-ahead log: a [`Piece`], sealed by a checksum. Its name tells
//! the log, and the numbers of the first and the last change. A folder may have pieces of several logs, because a
//! restored database begins a new log.
//!
//! Neighboring pieces are [merged](merge) into larger ones. A piece is covered once a larger one has all of its
//! changes: nobody reads it any more, and the next merge removes it.

mod merge;
pub(crate) mod reader;
pub(crate) mod thread;
mod writer;

use std::cmp::Reverse;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::StoreFailure;
use crate::format::Format;
use crate::sled::commit::change::ChangeGroup;
use crate::sled::files::{replace_through, sync_folder};
use crate::sled::health::disk_space::MIB;
use crate::sled::keys::MAX_SEQUENCE;
use crate::sled::regular_file::{read_own, remove_if_there};
use crate::sled::sealed::Seal;

const FORMAT: Format = Format { name: "the piece of an archive", oldest: 1, newest: 1 };

const SEAL: Seal = Seal { magic: *b"plpiece2", name: "a piece of an archive" };

/// A piece is complete at this many bytes of groups.
const PIECE_BYTES: u64 = 8 * MIB;

/// The most bytes of a piece: [`PIECE_BYTES`] of groups, and one more group, which fits into a segment of the
/// write-ahead log.
const PIECE_MAX_BYTES: u64 = 32 * MIB;

/// The extension of a piece's file.
const EXTENSION: &str = "wal";

#[derive(Serialize, Deserialize)]
struct Piece<'a> {
    event_log: u32,
    /// Groups, encoded as in the write-ahead log.
    #[serde(borrow)]
    payloads: Vec<&'a [u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceName {
    /// The name of the log of events, part of each cursor.
    pub(crate) event_log: u32,
    pub(crate) first_sequence: u64,
    pub(crate) last_sequence: u64,
}

impl PieceName {
    fn file_name(&self) -> String {
        let Self { event_log, first_sequence, last_sequence } = self;
        format!("{event_log:08x}-{first_sequence:019}-{last_sequence:019}.{EXTENSION}")
    }

    /// Parses the name of a piece; `None` for other files in the folder.
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

/// The pieces in an archive without the covered ones, oldest first in each log.
pub(crate) fn pieces(archive: &Path) -> anyhow::Result<Vec<PieceName>> {
    let mut pieces = all_pieces(archive)?;
    remove_covered(&mut pieces);
    Ok(pieces)
}

/// Removes the covered pieces. Returns each with the piece that covers it.
fn remove_covered(pieces: &mut Vec<PieceName>) -> Vec<(PieceName, PieceName)> {
    let (mut kept, mut covered) = (Vec::<PieceName>::new(), Vec::new());
    // The covering piece sorts later, because it does not end before those that it covers.
    for piece in pieces.drain(..).rev() {
        match kept.last().filter(|later| later.event_log == piece.event_log) {
            Some(later) if piece.first_sequence >= later.first_sequence => {
                covered.push((piece, *later));
            }
            _ => kept.push(piece),
        }
    }
    pieces.extend(kept.into_iter().rev());
    covered
}

/// All pieces in an archive, oldest first in each log.
fn all_pieces(archive: &Path) -> anyhow::Result<Vec<PieceName>> {
    let read = || {
        let mut pieces = Vec::new();
        for entry in fs::read_dir(archive)? {
            pieces.extend(entry?.file_name().to_str().and_then(PieceName::parse));
        }
        anyhow::Ok(pieces)
    };
    let mut pieces =
        read().with_context(|| format!("cannot read the archive {}", archive.display()))?;
    pieces.sort_unstable_by_key(|it| (it.event_log, it.last_sequence, Reverse(it.first_sequence)));
    Ok(pieces)
}

/// Writes a piece by [`replace_through`] a file with the name `new`. The piece is on disk when this returns.
pub(crate) fn write_piece(
    archive: &Path,
    name: PieceName,
    payloads: Vec<&[u8]>,
    new: &str,
    written_at: Option<SystemTime>,
) -> anyhow::Result<()> {
    let piece = Piece { event_log: name.event_log, payloads };
    let bytes = SEAL.seal(&FORMAT.encode(&piece, 0)?);
    replace_through(&archive.join(new), &name.path(archive), &bytes, written_at)
}

/// Reads a piece. Fails unless the piece has exactly the changes that its name tells.
pub(crate) fn read_piece(archive: &Path, name: PieceName) -> anyhow::Result<Vec<ChangeGroup>> {
    read_with(archive, name, |content| groups_in(name, content))
}

/// Reads the content of a piece.
fn read_with<T>(
    archive: &Path,
    name: PieceName,
    decode: impl FnOnce(&[u8]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let path = name.path(archive);
    let read = || {
        let bytes = fs::symlink_metadata(&path)?.len();
        ensure!(bytes <= PIECE_MAX_BYTES, "it has more than {PIECE_MAX_BYTES} bytes");
        decode(SEAL.open(&read_own(&path)?)?)
    };
    read().with_context(|| format!("{} cannot be used", path.display()))
}

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
    /// The number of pieces.
    pub pieces: u64,
    /// The size of these pieces, in bytes.
    pub bytes: u64,
}

/// Removes the pieces of an archive that are older than `keep`. No backup younger than that needs them. The newest
/// piece of each log stays. A server may write to the archive meanwhile.
///
/// # Errors
///
/// When the archive cannot be read, or a piece cannot be removed.
pub fn prune_archive(archive: &Path, keep: Duration) -> Result<Pruned, StoreFailure> {
    prune(archive, keep).map_err(StoreFailure::new)
}

fn prune(archive: &Path, keep: Duration) -> anyhow::Result<Pruned> {
    let pieces = all_pieces(archive)?;
    let mut pruned = Pruned::default();
    let now = SystemTime::now();
    for of_log in pieces.chunk_by(|one, next| one.event_log == next.event_log) {
        for piece in &of_log[..of_log.len() - 1] {
            let path = piece.path(archive);
            let metadata = match fs::metadata(&path) {
                // The server has merged the piece meanwhile.
                Err(cause) if cause.kind() == ErrorKind::NotFound => continue,
                read => read.with_context(|| format!("cannot read {}", path.display()))?,
            };
            // A time in the future counts as now.
            let age = now.duration_since(metadata.modified()?).unwrap_or_default();
            if age <= keep {
                // Pruning stops at the first young piece, so that no gap arises.
                break;
            }
            remove_if_there(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            pruned.pieces += 1;
            pruned.bytes += metadata.len();
        }
    }
    sync_folder(archive)?;
    Ok(pruned)
}
