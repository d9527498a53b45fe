//! The journal: where a group of changes is on disk before anyone is answered.
//!
//! It stands beside sled's own log because of what a sync through sled costs: its flush hands the
//! write to a pool whose seven threads all wake for it, waits for `sync_file_range`, and is no fsync
//! in the end. A record here is one write and one `fdatasync`. sled gets the group right after that,
//! and its part of the disk is synced once for many groups, at a checkpoint.
//!
//! The journal has two segments, files of a fixed size that are made once and written over and over,
//! so that a sync has no file length to bring to the disk. While one is written, a checkpoint makes
//! the other free. A record is a head (magic, length, CRC-32 of the payload) and a payload (a
//! [`Group`]), and begins at a multiple of [`ALIGNMENT`].
//!
//! When the database is opened, every whole record of both segments is looked at, and those with
//! later sequence numbers than sled has are applied again. They must follow without a gap. So it does
//! not matter that old records stand behind the new ones: sled has them already.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::layout::Group;

/// The size of a segment, in bytes. The larger it is, the rarer are checkpoints, and the more has to
/// be applied again after a kill.
const SEGMENT_BYTES: usize = 4 * 1024 * 1024;

const SEGMENT_NAMES: [&str; 2] = ["journal.0", "journal.1"];

const MAGIC: [u8; 4] = *b"pljr";
const HEAD_BYTES: usize = 12;
const ALIGNMENT: usize = 8;

#[derive(Debug)]
pub(super) struct Journal {
    segments: [File; 2],
    current: usize,
    /// Where the next record goes, in bytes from the start of the current segment.
    position: usize,
}

/// Makes empty segments. They count once the database has its name; see `open`.
pub(super) fn make(directory: &Path) -> anyhow::Result<()> {
    for path in paths(directory) {
        let make = || {
            let mut file = File::create(&path)?;
            file.write_all(&vec![0; SEGMENT_BYTES])?;
            file.sync_all()
        };
        make().with_context(|| format!("cannot make {}", path.display()))?;
    }
    Ok(())
}

/// The payloads of all whole records, in no order.
pub(super) fn read_payloads(directory: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut payloads = Vec::new();
    for path in paths(directory) {
        let segment = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            segment.len() == SEGMENT_BYTES,
            "{} is cut: it has {} bytes instead of {SEGMENT_BYTES}",
            path.display(),
            segment.len()
        );
        let mut position = 0;
        while position + HEAD_BYTES <= segment.len() {
            match whole_record(&segment[position..]) {
                Some(payload) => {
                    payloads.push(payload.to_vec());
                    position += record_bytes(payload.len());
                }
                None => position += ALIGNMENT,
            }
        }
    }
    Ok(payloads)
}

fn paths(directory: &Path) -> [PathBuf; 2] {
    SEGMENT_NAMES.map(|name| directory.join(name))
}

/// The payload of the record that begins here, if a whole one does.
fn whole_record(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (crc, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let payload = rest.get(..length)?;
    (crc32fast::hash(payload) == u32::from_be_bytes(*crc)).then_some(payload)
}

fn record_bytes(payload_bytes: usize) -> usize {
    (HEAD_BYTES + payload_bytes).next_multiple_of(ALIGNMENT)
}

/// A group as it stands in the journal.
pub(super) struct Record(Vec<u8>);

impl Record {
    pub(super) fn new(group: &Group<'_>) -> anyhow::Result<Self> {
        let mut bytes = postcard::to_extend(group, vec![0; HEAD_BYTES])?;
        let payload = &bytes[HEAD_BYTES..];
        let length = u32::try_from(payload.len()).context("a group is too large")?;
        let crc = crc32fast::hash(payload);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&length.to_be_bytes());
        bytes[8..HEAD_BYTES].copy_from_slice(&crc.to_be_bytes());
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        ensure!(bytes.len() <= SEGMENT_BYTES, "a group of {} bytes is too large", bytes.len());
        Ok(Self(bytes))
    }
}

impl Journal {
    /// Opens the journal for writing, from the start of a segment on. Everything in it must be on
    /// disk in sled already.
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let [first, second] = paths(directory).map(|path| {
            File::options()
                .write(true)
                .open(&path)
                .with_context(|| format!("cannot write {}", path.display()))
        });
        Ok(Self { segments: [first?, second?], current: 0, position: 0 })
    }

    pub(super) fn has_room_for(&self, record: &Record) -> bool {
        self.position + record.0.len() <= SEGMENT_BYTES
    }

    /// Goes on in the other segment. Everything in that one must be on disk in sled already.
    pub(super) fn switch_segment(&mut self) {
        self.current = 1 - self.current;
        self.position = 0;
    }

    /// Writes the record. When this returns, it is on disk.
    pub(super) fn append(&mut self, record: &Record) -> anyhow::Result<()> {
        let segment = &self.segments[self.current];
        segment
            .write_all_at(&record.0, u64::try_from(self.position)?)
            .context("writing to the journal")?;
        segment.sync_data().context("syncing the journal")?;
        self.position += record.0.len();
        Ok(())
    }
}
