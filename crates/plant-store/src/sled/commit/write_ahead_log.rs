//! The write-ahead log: every group is on disk here before its writes are answered.
//!
//! The log has two segments, the files `journal.0` and `journal.1` (the names are part of the on-disk format). They
//! have a fixed size, are created once and overwritten in turn, so a sync never writes a new file length. While one
//! segment fills, the memtable of the other is flushed to a table, which frees that segment. An append is one write and
//! one `fdatasync`.
//!
//! A segment begins with a salt. Each record begins at a multiple of [`ALIGNMENT`]: a header (magic, length, CRC-32 of
//! salt and payload), then the payload (a [`ChangeGroup`]). Recovery searches for whole records even between the
//! remains of older ones, and some of those bytes come from clients. The salt is random and never shown, so no client
//! can forge a record.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::fault;
use crate::sled::commit::change::ChangeGroup;
use crate::sled::health::findings::Findings;
use crate::sled::regular_file::{create, open_own, read_own, remove_if_there};

/// The size of a segment, in bytes. Larger segments make compaction cheaper, and the replay after a kill longer.
pub(crate) const SEGMENT_BYTES: usize = 8 * 1024 * 1024;

/// The size of both segments.
pub(crate) const LOG_BYTES: usize = SEGMENT_NAMES.len() * SEGMENT_BYTES;

const SEGMENT_NAMES: [&str; 2] = ["journal.0", "journal.1"];

const SALT_BYTES: usize = 8;

const MAGIC: [u8; 4] = *b"pljr";
const HEAD_BYTES: usize = 12;
const ALIGNMENT: usize = 8;

#[derive(Debug)]
pub(crate) struct WriteAheadLog {
    segments: [Segment; 2],
    current: usize,
    /// The offset of the next record in the current segment, in bytes.
    position: usize,
}

#[derive(Debug)]
struct Segment {
    file: File,
    salt: [u8; SALT_BYTES],
}

/// The salts of both segments, one after the other. The manifest stores them to recognize its log.
pub(crate) type Salts = [u8; 2 * SALT_BYTES];

/// Makes empty segments. Fails if existing ones are in use, because their database is then missing.
pub(crate) fn make(directory: &Path) -> anyhow::Result<Salts> {
    let mut salts = Salts::default();
    getrandom::fill(&mut salts).context("the system gives no random bytes")?;
    for (path, salt) in paths(directory).iter().zip(salts.chunks(SALT_BYTES)) {
        let existing = match read_own(path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        ensure!(
            !is_in_use(&existing),
            "the manifest is missing beside {}, which is in use; put it back, or restore a backup",
            path.display()
        );
        let mut segment = vec![0; SEGMENT_BYTES];
        segment[..SALT_BYTES].copy_from_slice(salt);
        let make = || {
            remove_if_there(path)?;
            let mut file = create(path)?;
            file.write_all(&segment)?;
            file.sync_all()
        };
        make().with_context(|| format!("cannot make {}", path.display()))?;
        fault::point("after-segment-made");
    }
    Ok(salts)
}

/// Whether a segment has a record. In a file as long as a segment, any byte counts, because the salt may be damaged.
fn is_in_use(segment: &[u8]) -> bool {
    let has_bytes = || segment.iter().skip(SALT_BYTES).any(|byte| *byte != 0);
    (segment.len() == SEGMENT_BYTES && has_bytes()) || !whole_records(segment).is_empty()
}

#[derive(Debug, Default)]
pub(crate) struct LogContent {
    segments: [SegmentContent; 2],
}

#[derive(Debug, Default)]
struct SegmentContent {
    salt: [u8; SALT_BYTES],
    groups: Vec<ChangeGroup>,
}

impl LogContent {
    /// All groups, in any order.
    pub(crate) fn into_groups(self) -> Vec<ChangeGroup> {
        self.segments.into_iter().flat_map(|segment| segment.groups).collect()
    }
}

/// Whether a folder has a segment.
pub(crate) fn is_in(directory: &Path) -> bool {
    paths(directory).iter().any(|path| path.exists())
}

/// Reads all whole records, even of a damaged segment. The segments must have the manifest's salts, if these are known:
/// in the log of another database, no record has a matching checksum.
pub(crate) fn read(
    directory: &Path,
    salts: Option<Salts>,
    findings: &mut Findings,
) -> anyhow::Result<LogContent> {
    let mut content = LogContent::default();
    for (index, path) in paths(directory).iter().enumerate() {
        let SegmentContent { salt, groups } = &mut content.segments[index];
        let segment = read_synced(path);
        let Some(segment) = findings.value_of(segment)? else { continue };
        if segment.len() != SEGMENT_BYTES {
            findings.add(format_args!(
                "{} is cut: it has {} bytes instead of {SEGMENT_BYTES}",
                path.display(),
                segment.len()
            ))?;
        }
        *salt = segment.first_chunk().copied().unwrap_or_default();
        let expected = salts.and_then(|salts| salts.as_chunks().0.get(index).copied());
        if let Some(expected) = expected.filter(|expected| expected != salt) {
            findings.add(format_args!(
                "{} does not belong to the manifest, or its first bytes are damaged; put the file of this database back",
                path.display()
            ))?;
            *salt = expected;
        }
        for payload in records_with(*salt, &segment) {
            groups.extend(findings.value_of(ChangeGroup::decode(payload))?);
        }
    }
    Ok(content)
}

/// Syncs the file before reading it: a kill may have come between a write and its sync, and recovery relies on what it
/// reads.
fn read_synced(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read = || {
        let mut file = open_own(path, File::options().read(true))?;
        match file.sync_data() {
            // A file system without writes, such as squashfs, has nothing to sync.
            Err(cause) if cause.kind() == ErrorKind::InvalidInput => {}
            synced => synced?,
        }
        let mut segment = Vec::with_capacity(SEGMENT_BYTES);
        file.read_to_end(&mut segment)?;
        Ok::<_, io::Error>(segment)
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

pub(crate) fn whole_records(segment: &[u8]) -> Vec<&[u8]> {
    segment.first_chunk().map_or_else(Vec::new, |salt| records_with(*salt, segment))
}

/// The payloads of the whole records with this salt.
fn records_with(salt: [u8; SALT_BYTES], segment: &[u8]) -> Vec<&[u8]> {
    let mut payloads = Vec::new();
    let mut position = SALT_BYTES;
    while let Some(rest) = segment.get(position..).filter(|rest| rest.len() > HEAD_BYTES) {
        match whole_record(salt, rest) {
            Some(payload) => {
                payloads.push(payload);
                position += record_bytes(payload.len());
            }
            None => position += ALIGNMENT,
        }
    }
    payloads
}

fn paths(directory: &Path) -> [PathBuf; 2] {
    SEGMENT_NAMES.map(|name| directory.join(name))
}

fn whole_record(salt: [u8; SALT_BYTES], bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (crc, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let payload = rest.get(..length)?;
    (salted_crc(salt, payload) == u32::from_be_bytes(*crc)).then_some(payload)
}

fn salted_crc(salt: [u8; SALT_BYTES], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&salt);
    crc.update(payload);
    crc.finalize()
}

fn record_bytes(payload_bytes: usize) -> usize {
    (HEAD_BYTES + payload_bytes).next_multiple_of(ALIGNMENT)
}

pub(crate) fn payload_of(group: &ChangeGroup) -> anyhow::Result<Vec<u8>> {
    let payload = group.encode()?;
    ensure!(
        SALT_BYTES + record_bytes(payload.len()) <= SEGMENT_BYTES,
        "a group of {} bytes is too large",
        payload.len()
    );
    Ok(payload)
}

pub(crate) fn record(salt: [u8; SALT_BYTES], payload: &[u8]) -> anyhow::Result<Vec<u8>> {
    let length = u32::try_from(payload.len())?.to_be_bytes();
    let crc = salted_crc(salt, payload).to_be_bytes();
    let mut record = [&MAGIC, &length, &crc, payload].concat();
    record.resize(record_bytes(payload.len()), 0);
    Ok(record)
}

impl WriteAheadLog {
    /// Opens the log for writing at the start of a segment. Before the first write, all changes of the log must be in
    /// tables. Writing begins with the segment that does not hold the newest record, so that this record stays until a
    /// newer one is written.
    pub(crate) fn open(directory: &Path, content: &LogContent) -> anyhow::Result<Self> {
        let open = |path: &Path, salt| {
            let file = open_own(path, File::options().write(true));
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            anyhow::Ok(Segment { file, salt })
        };
        let ([first_path, second_path], [first, second]) = (paths(directory), &content.segments);
        let segments = [open(&first_path, first.salt)?, open(&second_path, second.salt)?];
        let newest = |of: &SegmentContent| of.groups.iter().map(ChangeGroup::last_sequence).max();
        let current = usize::from(newest(first) > newest(second));
        Ok(Self { segments, current, position: SALT_BYTES })
    }

    pub(crate) fn has_room_for(&self, payload: &[u8]) -> bool {
        self.position + record_bytes(payload.len()) <= SEGMENT_BYTES
    }

    /// How full the current segment is, from 0 to 1.
    pub(crate) fn fill_ratio(&self) -> f64 {
        self.position as f64 / SEGMENT_BYTES as f64
    }

    /// Continues in the other segment, whose changes must be in tables.
    pub(crate) fn switch_segment(&mut self) {
        self.current = 1 - self.current;
        self.position = SALT_BYTES;
    }

    /// Appends the record of a payload. The record is on disk when this returns.
    pub(crate) fn append(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        let Segment { file, salt } = &self.segments[self.current];
        let record = record(*salt, payload)?;
        fault::point("before-log-write");
        file.write_all_at(&record, u64::try_from(self.position)?)
            .context("writing to the write-ahead log")?;
        fault::point("before-log-sync");
        file.sync_data().context("syncing the write-ahead log")?;
        self.position += record.len();
        Ok(())
    }
}
