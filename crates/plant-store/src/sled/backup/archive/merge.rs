//! Merges small pieces of an archive into larger ones, so that many small changes do not make many files.
//!
//! The merged piece is on disk, under a name that tells which changes it has, before the pieces that it covers are
//! removed. The newest piece is never merged, because the archive's writer recognizes the archive by it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};

use super::{
    FORMAT, PIECE_BYTES, Piece, PieceName, all_pieces, groups_in, read_piece, read_with,
    remove_covered, write_piece,
};
use crate::fault;
use crate::sled::compaction::size_tiers::{neighbors, tier_of};
use crate::sled::files::sync_folder;
use crate::sled::regular_file::remove_if_there;

/// The interval between looks for pieces to merge, in milliseconds.
const MERGE_INTERVAL_MS: usize = 60_000;

/// How many neighboring pieces of similar size are merged.
const PIECES_OF_A_MERGE: usize = 16;

/// Each tier has pieces this many times as large as the tier before.
const TIER_FACTOR: u64 = 16;

/// Pieces of this tier are no longer merged.
const LARGE_TIER: u32 = 3;

/// A piece of fewer bytes has tier 0. Two pieces below [`LARGE_TIER`] always fit into one.
const TIER_0_BYTES: u64 = PIECE_BYTES / 2 / TIER_FACTOR.pow(LARGE_TIER - 1);

/// A piece that a merge may take.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    name: PieceName,
    bytes: u64,
    written_at: SystemTime,
}

/// Starts the thread that merges the pieces of a log. The thread ends when the returned sender is dropped. `lock` keeps
/// out other writers of this log.
pub(super) fn start(directory: PathBuf, event_log: u32, lock: File) -> anyhow::Result<Sender<()>> {
    let (archiving, ended) = channel();
    let interval = fault::limit("archive-merge-interval-ms", MERGE_INTERVAL_MS);
    let interval = Duration::from_millis(interval as u64);
    let run = move || {
        let _lock = lock;
        let mut had_failed = false;
        while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            let goes_on = || ended.try_recv() == Err(TryRecvError::Empty);
            let merge = AssertUnwindSafe(|| merge_pieces(&directory, event_log, &goes_on));
            let merged =
                panic::catch_unwind(merge).unwrap_or_else(|_| Err(anyhow!("the merge panicked")));
            let (archive, has_failed) = (directory.display(), merged.is_err());
            match merged {
                Err(cause) if !had_failed => log::warn!(
                    "pieces of the archive {archive} cannot be merged, so it gets more files than it needs: {cause:#}"
                ),
                Ok(()) if had_failed => {
                    log::info!("pieces of the archive {archive} are merged again")
                }
                _ => {}
            }
            had_failed = has_failed;
        }
    };
    let thread = thread::Builder::new().name("plant-pieces".to_owned()).spawn(run);
    thread.context("cannot start the thread that merges the pieces of the archive")?;
    Ok(archiving)
}

/// Merges pieces of a log until no merge is due, or until `goes_on` returns false. An unreadable piece stays as it is,
/// and its error is returned at the end.
fn merge_pieces(archive: &Path, event_log: u32, goes_on: &dyn Fn() -> bool) -> anyhow::Result<()> {
    let mut pieces = all_pieces(archive)?;
    pieces.retain(|piece| piece.event_log == event_log);
    let left_by_kill = remove_covered(&mut pieces);
    let mut merged = Ok(());
    for of_one in left_by_kill.chunk_by(|(_, one), (_, other)| one == other) {
        if let Err(cause) = read_piece(archive, of_one[0].1) {
            merged = merged.and(Err(cause));
            continue;
        }
        // A kill may have come between the rename of the covering piece and this sync.
        sync_folder(archive)?;
        remove(archive, of_one.iter().map(|(covered, _)| covered), goes_on)?;
    }
    pieces.pop();
    let candidates = pieces.into_iter().map(|name| {
        let path = name.path(archive);
        let metadata = match fs::symlink_metadata(&path) {
            // The piece was pruned meanwhile.
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        Ok(Some(Candidate { name, bytes: metadata.len(), written_at: metadata.modified()? }))
    });
    let candidates: Vec<Option<_>> = candidates.collect::<anyhow::Result<_>>()?;
    let candidates: Vec<Candidate> = candidates.into_iter().flatten().collect();
    let follows =
        |one: &Candidate, next: &Candidate| next.name.first_sequence == one.name.last_sequence + 1;
    for without_gap in candidates.chunk_by(follows) {
        merged = merged.and(merge_neighbors(archive, without_gap.to_vec(), goes_on));
    }
    merged
}

/// Merges pieces that have no gap between them.
fn merge_neighbors(
    archive: &Path,
    mut pieces: Vec<Candidate>,
    goes_on: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let mut merged = Ok(());
    'merges: while let Some(range) = pieces_to_merge(&pieces) {
        let mut contents = Vec::new();
        for input in &mut pieces[range.clone()] {
            if !goes_on() {
                return merged;
            }
            let decode = |content: &[u8]| groups_in(input.name, content).map(|_| content.to_vec());
            match read_with(archive, input.name, decode) {
                Ok(content) => contents.push(content),
                Err(cause) => {
                    // Keeps the piece out of further merges, like a large one.
                    input.bytes = u64::MAX;
                    merged = merged.and(Err(cause));
                    continue 'merges;
                }
            }
        }
        let inputs: Vec<_> = pieces[range.clone()].iter().map(|input| input.name).collect();
        let output = merge(archive, &pieces[range.clone()], &contents)?;
        pieces.splice(range, [output]);
        remove(archive, &inputs, goes_on)?;
    }
    merged
}

/// Writes the piece that covers neighboring pieces with these contents.
fn merge(archive: &Path, inputs: &[Candidate], contents: &[Vec<u8>]) -> anyhow::Result<Candidate> {
    let (first, last) = inputs.first().zip(inputs.last()).context("a merge without pieces")?;
    let name = PieceName { last_sequence: last.name.last_sequence, ..first.name };
    let mut payloads = Vec::new();
    for content in contents {
        payloads.extend(FORMAT.decode::<Piece<'_>>(content)?.payloads);
    }
    // As old as its newest changes, so that a prune keeps it as long as those.
    let written_at = inputs.iter().map(|input| input.written_at).max();
    let new = format!("{:08x}.merged.new", name.event_log);
    write_piece(archive, name, payloads, &new, written_at)?;
    let bytes = inputs.iter().map(|input| input.bytes).sum();
    Ok(Candidate { name, bytes, written_at: written_at.unwrap_or(last.written_at) })
}

/// Removes covered pieces. If `goes_on` returns false meanwhile, the next merge removes the rest.
fn remove<'a>(
    archive: &Path,
    covered: impl IntoIterator<Item = &'a PieceName>,
    goes_on: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    for piece in covered.into_iter().take_while(|_| goes_on()) {
        fault::point("before-covered-piece-removed");
        let path = piece.path(archive);
        remove_if_there(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// The neighboring pieces to merge, if any: the oldest of similar size, as many as fit into one piece.
fn pieces_to_merge(pieces: &[Candidate]) -> Option<Range<usize>> {
    let tiers = pieces.iter().map(|piece| tier_of(piece.bytes, TIER_0_BYTES, TIER_FACTOR));
    let tiers: Vec<u32> = tiers.collect();
    let at_least = fault::limit("pieces-of-a-merge", PIECES_OF_A_MERGE);
    let range = (0..LARGE_TIER).find_map(|tier| neighbors(&tiers, tier, at_least))?;
    let sums = pieces[range.clone()].iter().scan(0, |sum, piece| {
        *sum += piece.bytes;
        Some(*sum)
    });
    let fitting = sums.take_while(|sum| *sum <= PIECE_BYTES).count();
    Some(range.start..range.start + fitting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;
    use crate::sled::backup::archive::reader::{ArchiveReader, PointInTime};
    use crate::sled::backup::archive::{pieces, prune_archive};
    use crate::sled::commit::change::{Change, ChangeGroup, Origin, Totals};

    const LOG: u32 = 7;

    /// An archive of small pieces, each with a group of one change. The first piece is 200 hours old, and each next one
    /// is an hour younger.
    fn archive_of(count: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let mut totals = Totals::default();
        for number in 1..=count {
            let change = Change::new(
                EventKind::Created,
                number.cast_signed().into(),
                Origin::default(),
                None,
                None,
            );
            let group = ChangeGroup { changes: vec![change], ..ChangeGroup::after(&totals, 1) };
            totals = totals.after(&group).expect("adds up");
            let name = PieceName { event_log: LOG, first_sequence: number, last_sequence: number };
            let written_at = SystemTime::now() - Duration::from_hours(200 - number);
            let payload = group.encode().expect("small");
            write_piece(folder.path(), name, vec![&payload], "new", Some(written_at))
                .expect("writes");
        }
        folder
    }

    /// The number of groups in an archive, which must be consecutive.
    fn groups_in_archive(archive: &Path) -> u64 {
        let moment = PointInTime::newest(archive);
        let mut reader = ArchiveReader::after(&moment, LOG, Totals::default()).expect("opens");
        let mut groups = 0;
        while reader.next().expect("it is whole").is_some() {
            groups += 1;
        }
        groups
    }

    fn files_in(archive: &Path) -> usize {
        fs::read_dir(archive).expect("reads").count()
    }

    fn copy_all(from: &Path, to: &Path) {
        for file in fs::read_dir(from).expect("reads") {
            let file = file.expect("reads");
            fs::copy(file.path(), to.join(file.file_name())).expect("copies");
        }
    }

    #[test]
    fn a_month_of_a_small_piece_each_second_is_in_few_files_and_each_byte_is_written_a_few_times() {
        const PIECE: u64 = 200;
        let (mut pieces, mut written, mut most) = (Vec::new(), 0, 0);
        for minute in 1..=30 * 24 * 60 {
            for second in 0..60 {
                let sequence = minute * 60 + second;
                let name =
                    PieceName { event_log: LOG, first_sequence: sequence, last_sequence: sequence };
                pieces.push(Candidate { name, bytes: PIECE, written_at: SystemTime::now() });
            }
            most = most.max(pieces.len());
            while let Some(range) = pieces_to_merge(&pieces) {
                assert!(range.len() > 1);
                let bytes = pieces[range.clone()].iter().map(|piece| piece.bytes).sum();
                assert!(bytes <= PIECE_BYTES);
                written += bytes;
                let output = Candidate { bytes, ..pieces[range.start] };
                pieces.splice(range, [output]);
            }
        }
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        assert_eq!(bytes, 30 * 24 * 60 * 60 * PIECE);
        let large = usize::try_from(bytes / (PIECE_BYTES / 2)).expect("small");
        assert!(most <= large + 2 * PIECES_OF_A_MERGE + 2 * 60, "{most} files");
        assert!(written <= 5 * bytes, "{written} of {bytes} bytes");
    }

    #[test]
    fn a_merge_that_ends_at_any_step_loses_nothing_and_the_next_one_completes_it() {
        let pristine = archive_of(20);
        for steps in 0_u64.. {
            let folder = tempfile::tempdir().expect("a folder");
            copy_all(pristine.path(), folder.path());
            let left = std::cell::Cell::new(steps);
            let goes_on = || {
                let goes_on = left.get() > 0;
                left.set(left.get().saturating_sub(1));
                goes_on
            };
            merge_pieces(folder.path(), LOG, &goes_on).expect("merges");
            assert_eq!(groups_in_archive(folder.path()), 20, "after {steps} steps");
            let is_complete = left.get() > 0;
            merge_pieces(folder.path(), LOG, &|| true).expect("merges");
            assert_eq!(groups_in_archive(folder.path()), 20);
            assert_eq!(files_in(folder.path()), 2, "the newest piece stays");
            if is_complete {
                assert!(steps > 30, "{steps}");
                break;
            }
        }
    }

    #[test]
    fn a_reader_goes_on_while_pieces_are_merged_and_takes_no_covered_ones() {
        let (pristine, folder) = (archive_of(50), archive_of(0));
        copy_all(pristine.path(), folder.path());
        let moment = PointInTime::newest(folder.path());
        let mut reader = ArchiveReader::after(&moment, LOG, Totals::default()).expect("opens");
        assert!(reader.next().expect("reads").is_some());
        merge_pieces(folder.path(), LOG, &|| true).expect("merges");
        let mut groups = 1;
        while reader.next().expect("it is whole").is_some() {
            groups += 1;
        }
        assert_eq!(groups, 50);
        // A killed merge has left covered pieces, some of which are damaged now.
        copy_all(pristine.path(), folder.path());
        let covered = PieceName { event_log: LOG, first_sequence: 9, last_sequence: 9 };
        fs::write(covered.path(folder.path()), "damaged").expect("writes");
        assert_eq!(groups_in_archive(folder.path()), 50);
    }

    #[test]
    fn an_unreadable_piece_stays_and_a_damaged_piece_removes_none_that_it_covers() {
        let (pristine, folder) = (archive_of(50), archive_of(0));
        copy_all(pristine.path(), folder.path());
        let ninth = PieceName { event_log: LOG, first_sequence: 9, last_sequence: 9 };
        let ninth = ninth.path(folder.path());
        let whole = fs::read(&ninth).expect("reads");
        fs::write(&ninth, "damaged").expect("writes");
        merge_pieces(folder.path(), LOG, &|| true).expect_err("a piece is damaged");
        assert_eq!(files_in(folder.path()), 8 + 1 + 1 + 1, "those behind are merged");
        fs::write(&ninth, whole).expect("writes");
        assert_eq!(groups_in_archive(folder.path()), 50);

        copy_all(pristine.path(), folder.path());
        let cover = pieces(folder.path()).expect("reads");
        let cover = cover.iter().find(|it| it.first_sequence == 10).expect("it was merged");
        fs::write(cover.path(folder.path()), "damaged").expect("writes");
        merge_pieces(folder.path(), LOG, &|| true).expect_err("it is damaged");
        fs::remove_file(cover.path(folder.path())).expect("removes");
        assert_eq!(groups_in_archive(folder.path()), 50);
    }

    #[test]
    fn a_prune_keeps_a_merged_piece_as_long_as_its_newest_change_and_all_behind_a_young_one() {
        let folder = archive_of(60);
        let gap = PieceName { event_log: LOG, first_sequence: 30, last_sequence: 30 };
        fs::remove_file(gap.path(folder.path())).expect("removes");
        merge_pieces(folder.path(), LOG, &|| true).expect("merges");
        let found = pieces(folder.path()).expect("reads");
        let ends: Vec<_> = found.iter().map(|it| (it.first_sequence, it.last_sequence)).collect();
        assert_eq!(ends, [(1, 29), (31, 59), (60, 60)]);
        // A young piece keeps those behind it, so that no gap arises.
        let touch = |written_at| {
            let file = fs::File::options().append(true).open(found[0].path(folder.path()));
            file.and_then(|file| file.set_modified(written_at)).expect("sets the time");
        };
        let written_at = fs::metadata(found[0].path(folder.path())).and_then(|it| it.modified());
        touch(SystemTime::now());
        let removed = prune_archive(folder.path(), Duration::from_hours(1)).expect("prunes");
        assert_eq!(removed.pieces, 0);
        touch(written_at.expect("a time"));
        // Change 29 is 171 hours old.
        for (hours, pruned) in [(172, 0), (170, 1), (142, 0), (140, 1)] {
            let removed =
                prune_archive(folder.path(), Duration::from_hours(hours)).expect("prunes");
            assert_eq!(removed.pieces, pruned, "{hours}");
        }
    }

    #[test]
    fn a_merge_that_cannot_write_leaves_every_piece() {
        let folder = archive_of(50);
        // A folder occupies the name of the file that a merge writes.
        fs::create_dir(folder.path().join(format!("{LOG:08x}.merged.new"))).expect("makes");
        merge_pieces(folder.path(), LOG, &|| true).expect_err("it cannot write");
        assert_eq!((files_in(folder.path()), groups_in_archive(folder.path())), (51, 50));
    }
}
