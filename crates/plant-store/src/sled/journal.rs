//! The journal: where a group of changes is on disk before anyone is answered.
//!
//! It stands beside sled's own log because of what a sync through sled costs: its flush hands the
//! write to a pool whose seven threads all wake for it, waits for `sync_file_range`, and is no fsync
//! in the end. A record here is one write and one `fdatasync`. sled gets many groups at once, later.
//!
//! The journal has two segments, files of a fixed size that are made once and written over and over,
//! so that a sync has no file length to bring to the disk. While one is written, what the other has is
//! folded into sled, which makes it free. A segment begins with a salt; a record is a head (magic, length, CRC-32 of the salt
//! and the payload) and a payload (a [`ChangeGroup`]), and begins at a multiple of [`ALIGNMENT`].
//!
//! Remains of older records are searched for whole ones too, and what clients send stands in them. The
//! salt is random and never leaves the file, so that no client can make up a record.
//!
//! When the database is opened, the newest records that follow each other without a gap are applied
//! again, also those that sled seems to have, unless it is known to have them on disk: after a power cut it
//! may have the newest without all of the older ones. Where sled ends before they begin, something is lost.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::findings::Findings;
use super::layout::ChangeGroup;
use crate::fault;

/// The size of a segment, in bytes. The larger it is, the less is it for sled to take in a change, and the more
/// has to be kept in memory, and applied again after a kill.
const SEGMENT_BYTES: usize = 8 * 1024 * 1024;

const SEGMENT_NAMES: [&str; 2] = ["journal.0", "journal.1"];

const SALT_BYTES: usize = 8;

const MAGIC: [u8; 4] = *b"pljr";
const HEAD_BYTES: usize = 12;
const ALIGNMENT: usize = 8;

#[derive(Debug)]
pub(super) struct Journal {
    segments: [Segment; 2],
    current: usize,
    /// Where the next record goes, in bytes from the start of the current segment.
    position: usize,
}

#[derive(Debug)]
struct Segment {
    file: File,
    salt: [u8; SALT_BYTES],
}

/// The salts of both segments, one after the other. A database keeps those of the journal that belongs to
/// it.
pub(super) type Salts = [u8; 2 * SALT_BYTES];

/// What the journal has.
pub(super) struct Contents {
    pub(super) salts: Salts,
    /// The payloads of all whole records, in no order.
    pub(super) payloads: Vec<Vec<u8>>,
}

/// Makes empty segments. They count once the database has its name; see `open`.
///
/// # Errors
///
/// Also when there is a record in segments that are there already: then a database is missing.
pub(super) fn make(directory: &Path) -> anyhow::Result<Salts> {
    let mut salts = Salts::default();
    getrandom::fill(&mut salts).context("the system gives no random bytes")?;
    for (path, salt) in paths(directory).iter().zip(salts.chunks(SALT_BYTES)) {
        let there = match fs::read(path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        ensure!(
            whole_records(&there).is_empty(),
            "the folder {} is missing beside {}, which is in use; put it back, or restore a backup",
            super::config::SLED_DIRECTORY,
            path.display()
        );
        let mut segment = vec![0; SEGMENT_BYTES];
        segment[..SALT_BYTES].copy_from_slice(salt);
        let make = || {
            // What is there may be a link, or the second name of a file: the folder may be another user's.
            match fs::remove_file(path) {
                Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
            let mut file = File::options().write(true).create_new(true).open(path)?;
            file.write_all(&segment)?;
            file.sync_all()
        };
        make().with_context(|| format!("cannot make {}", path.display()))?;
        fault::point("after-segment-made");
    }
    Ok(salts)
}

/// Reads the journal. A segment that is not as it should be is a finding; what is whole in it counts.
pub(super) fn read(directory: &Path, findings: &mut Findings) -> anyhow::Result<Contents> {
    let mut contents = Contents { salts: Salts::default(), payloads: Vec::new() };
    for (path, salt) in paths(directory).iter().zip(contents.salts.chunks_mut(SALT_BYTES)) {
        let segment = read_synced(path);
        let Some(segment) = findings.value_of(segment)? else { continue };
        if segment.len() != SEGMENT_BYTES {
            findings.add(format_args!(
                "{} is cut: it has {} bytes instead of {SEGMENT_BYTES}",
                path.display(),
                segment.len()
            ))?;
        }
        if let Some(stands_there) = segment.get(..SALT_BYTES) {
            salt.copy_from_slice(stands_there);
        }
        contents.payloads.extend(whole_records(&segment).into_iter().map(<[u8]>::to_vec));
    }
    Ok(contents)
}

/// A kill may have come before a sync: what is read is on disk before anything builds on it.
fn read_synced(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read = || {
        let mut file = File::open(path)?;
        file.sync_data()?;
        let mut segment = Vec::with_capacity(SEGMENT_BYTES);
        file.read_to_end(&mut segment)?;
        Ok::<_, io::Error>(segment)
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

pub(super) fn whole_records(segment: &[u8]) -> Vec<&[u8]> {
    let mut payloads = Vec::new();
    let Some((salt, _)) = segment.split_first_chunk() else { return payloads };
    let mut position = SALT_BYTES;
    while let Some(rest) = segment.get(position..).filter(|rest| rest.len() > HEAD_BYTES) {
        match whole_record(*salt, rest) {
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

/// The payload of the record that begins here, if a whole one does.
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

/// A group as it stands in the journal, but for the CRC, which depends on the segment.
pub(super) struct JournalRecord {
    bytes: Vec<u8>,
    payload_bytes: usize,
}

impl JournalRecord {
    pub(super) fn new(group: &ChangeGroup) -> anyhow::Result<Self> {
        let mut bytes = postcard::to_extend(group, vec![0; HEAD_BYTES])?;
        let payload_bytes = bytes.len() - HEAD_BYTES;
        let length = u32::try_from(payload_bytes).context("a group is too large")?;
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&length.to_be_bytes());
        bytes.resize(record_bytes(payload_bytes), 0);
        ensure!(
            SALT_BYTES + bytes.len() <= SEGMENT_BYTES,
            "a group of {payload_bytes} bytes is too large"
        );
        Ok(Self { bytes, payload_bytes })
    }

    /// The record as it stands in a segment with this salt.
    fn seal(&mut self, salt: [u8; SALT_BYTES]) -> &[u8] {
        let payload = &self.bytes[HEAD_BYTES..HEAD_BYTES + self.payload_bytes];
        let crc = salted_crc(salt, payload);
        self.bytes[8..HEAD_BYTES].copy_from_slice(&crc.to_be_bytes());
        &self.bytes
    }

    /// How much of a segment it takes, in bytes.
    #[cfg(feature = "__internal")]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// A segment that holds the record at this place of something else.
    #[cfg(feature = "__internal")]
    pub(super) fn in_segment(
        mut self,
        salt: [u8; SALT_BYTES],
        other: &[u8],
        place: usize,
    ) -> Vec<u8> {
        let (before, behind) = other.split_at(place);
        [&salt, before, self.seal(salt), behind].concat()
    }
}

impl Journal {
    /// Opens the journal for writing, from the start of a segment on. Everything in it must be on
    /// disk in sled already. Writing begins with the segment that does not have the newest record, so that this record
    /// stays until a newer one is written.
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let open = || {
                let file = File::options().read(true).write(true).open(path)?;
                let mut segment = Vec::new();
                (&file).read_to_end(&mut segment)?;
                Ok::<_, io::Error>((file, segment))
            };
            let (file, segment) =
                open().with_context(|| format!("cannot write {}", path.display()))?;
            let (salt, _) =
                segment.split_first_chunk().context("a segment of the journal is cut")?;
            let newest = whole_records(&segment)
                .into_iter()
                .filter_map(|payload| ChangeGroup::decode(payload).ok())
                .map(|group| group.last_sequence())
                .max();
            anyhow::Ok((Segment { file, salt: *salt }, newest))
        };
        let [first, second] = paths(directory);
        let ((first, newest_of_first), (second, newest_of_second)) =
            (open(&first)?, open(&second)?);
        let current = usize::from(newest_of_first > newest_of_second);
        Ok(Self { segments: [first, second], current, position: SALT_BYTES })
    }

    pub(super) fn has_room_for(&self, record: &JournalRecord) -> bool {
        self.position + record.bytes.len() <= SEGMENT_BYTES
    }

    /// Goes on in the other segment. Everything in that one must be on disk in sled already.
    pub(super) fn switch_segment(&mut self) {
        self.current = 1 - self.current;
        self.position = SALT_BYTES;
    }

    /// Writes the record. When this returns, it is on disk.
    pub(super) fn append(&mut self, mut record: JournalRecord) -> anyhow::Result<()> {
        let Segment { file, salt } = &self.segments[self.current];
        fault::point("before-journal-write");
        file.write_all_at(record.seal(*salt), u64::try_from(self.position)?)
            .context("writing to the journal")?;
        fault::point("before-journal-sync");
        file.sync_data().context("syncing the journal")?;
        self.position += record.bytes.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plant_domain::PlantId;

    use super::*;
    use crate::plant_record::PlantRecord;
    use crate::sled::digest::PlantsDigest;
    use crate::sled::layout::Change;

    fn group(first_sequence: u64, name: &str) -> ChangeGroup {
        let record = PlantRecord { revision: first_sequence, idempotency: None, name, tag: None };
        let record = record.encode().expect("small");
        let change = Change::new(PlantId::from(7), None, Some(record)).expect("a small record");
        ChangeGroup {
            first_sequence,
            plants_before: first_sequence - 1,
            digest_before: PlantsDigest::default(),
            changes: vec![change],
        }
    }

    fn payloads_in(folder: &tempfile::TempDir) -> Vec<Vec<u8>> {
        read(folder.path(), &mut Findings::Refuse).unwrap().payloads
    }

    #[test]
    fn what_was_appended_is_read_whichever_segment_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path()).unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        for sequence in 1..=3 {
            journal.append(JournalRecord::new(&group(sequence, "Rosa")).unwrap()).unwrap();
            journal.switch_segment();
        }
        let payloads = payloads_in(&folder);
        let mut groups: Vec<ChangeGroup> =
            payloads.iter().map(|payload| ChangeGroup::decode(payload).unwrap()).collect();
        groups.sort_unstable_by_key(|group| group.first_sequence);
        // The third one was written over the first one.
        assert_eq!(groups, [group(2, "Rosa"), group(3, "Rosa")]);
    }

    #[test]
    fn a_record_of_another_journal_counts_as_none() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&one, &other] {
            make(folder.path()).unwrap();
        }
        let mut journal = Journal::open(one.path()).unwrap();
        journal.append(JournalRecord::new(&group(1, "Rosa")).unwrap()).unwrap();
        let record = fs::read(one.path().join(SEGMENT_NAMES[0])).unwrap().split_off(SALT_BYTES);

        let path = other.path().join(SEGMENT_NAMES[0]);
        let mut segment = fs::read(&path).unwrap();
        segment[SALT_BYTES..].copy_from_slice(&record);
        fs::write(&path, &segment).unwrap();
        assert_eq!(payloads_in(&one).len(), 1);
        assert_eq!(payloads_in(&other).len(), 0);
    }

    #[test]
    fn segments_that_hold_records_are_not_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path()).unwrap();
        make(folder.path()).unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        journal.append(JournalRecord::new(&group(1, "Rosa")).unwrap()).unwrap();
        assert!(make(folder.path()).is_err());
        assert_eq!(payloads_in(&folder).len(), 1);
    }
}
