//! The thread that copies the write-ahead log to an archive.
//!
//! The commit thread hands over each group once the group is in the write-ahead log. A slow, full or missing archive
//! never stops writes: groups wait in memory, and once too many wait, the archive loses the oldest. This gap is logged
//! and counted, and no restore goes past it.

use std::collections::VecDeque;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use prometheus::IntCounter;
use prometheus::core::Collector as _;

use crate::StoreFailure;
use crate::metrics::{MetricFamily, counter, gauge};
use crate::sled::backup::archive::PIECE_BYTES;
use crate::sled::backup::archive::writer::ArchiveWriter;
use crate::sled::commit::change::{ChangeGroup, Totals};
use crate::sled::commit::write_ahead_log::payload_of;

/// Changes reach an archive that works within this time.
const PIECE_INTERVAL: Duration = Duration::from_secs(1);

/// The most bytes of groups that wait for a failing archive.
const WAITING_MAX_BYTES: usize = 64 * 1024 * 1024;

/// How long the store waits for an archive that has not failed before it overwrites a segment of the write-ahead log.
const SEGMENT_PATIENCE: Duration = Duration::from_secs(1);

/// How long a closing store waits for an archive that has not failed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// An archive that has taken no change for this long counts as failing, because its disk may never answer.
const FAILING_AFTER: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct WaitingGroup {
    first_sequence: u64,
    last_sequence: u64,
    payload: Vec<u8>,
    since: Instant,
}

/// The state that the commit thread, the archive thread and others share.
#[derive(Debug)]
pub(crate) struct Archiver {
    directory: PathBuf,
    queue: Mutex<Queue>,
    /// Notified whenever the queue changes.
    changed: Condvar,
    failures: IntCounter,
    lost_changes: IntCounter,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<WaitingGroup>,
    /// The size of the groups that wait or are being written.
    bytes: usize,
    /// Since when the archive lacks a change; `None` when it has every change.
    behind_since: Option<Instant>,
    /// The last change in the archive, 0 before the first one; `None` until the archive was opened.
    archived: Option<u64>,
    /// The commit thread waits for this change, so the next piece must not wait for more changes.
    wanted: u64,
    /// Whether changes were lost since the last piece.
    has_lost: bool,
    /// Why the last attempt failed.
    failure: Option<StoreFailure>,
    /// Whether no more groups will come.
    is_ended: bool,
}

impl Archiver {
    /// Starts the thread. `groups` are the newest in the write-ahead log; those that the archive lacks are written
    /// first. The thread ends after [`Self::end`]. Nothing joins it, because its disk may never answer.
    pub(crate) fn start(
        directory: PathBuf,
        event_log: u32,
        totals: Totals,
        groups: &[ChangeGroup],
    ) -> anyhow::Result<Arc<Self>> {
        let marks = groups.iter().map(ChangeGroup::totals_before).chain([totals]);
        let marks: Vec<_> = marks.collect();
        let archiver = Arc::new(Self {
            directory,
            queue: Mutex::default(),
            changed: Condvar::new(),
            failures: counter(
                "plantd_archive_failures_total",
                "Attempts to write a piece of the archive that failed.",
            ),
            lost_changes: counter(
                "plantd_archive_lost_changes_total",
                "Changes that the archive has lost: a restore cannot go past them, so take a new backup.",
            ),
        });
        // A restore leaves a group without changes in the write-ahead log.
        for group in groups.iter().filter(|group| !group.changes.is_empty()) {
            archiver.add(group.first_sequence, group.last_sequence(), payload_of(group)?);
        }
        let of_thread = Arc::clone(&archiver);
        thread::Builder::new()
            .name("plant-archive".to_owned())
            .spawn(move || {
                let run = AssertUnwindSafe(|| of_thread.run(event_log, &marks));
                if panic::catch_unwind(run).is_err() {
                    let cause =
                        anyhow!("the thread of the archive panicked; start the server again");
                    of_thread.note(Some(StoreFailure::new(cause)));
                }
            })
            .context("cannot start the thread of the archive")?;
        // The first write of the store may overwrite the segment that has these groups.
        archiver.wait_until_archived(totals.last_sequence);
        Ok(archiver)
    }

    /// Takes a group that is in the write-ahead log.
    pub(crate) fn add(&self, first_sequence: u64, last_sequence: u64, payload: Vec<u8>) {
        let since = Instant::now();
        let mut queue = self.queue();
        queue.behind_since.get_or_insert(since);
        queue.bytes += payload.len();
        queue.waiting.push_back(WaitingGroup { first_sequence, last_sequence, payload, since });
        while queue.bytes > WAITING_MAX_BYTES {
            let Some(lost) = queue.waiting.pop_front() else { break };
            queue.bytes -= lost.payload.len();
            let had_lost = mem::replace(&mut queue.has_lost, true);
            self.note_lost(lost.first_sequence, lost.last_sequence, !had_lost);
        }
        drop(queue);
        self.changed.notify_all();
    }

    fn note_lost(&self, first: u64, last: u64, is_news: bool) {
        self.lost_changes.inc_by(last + 1 - first);
        if is_news {
            log::error!(
                "the archive {} loses changes from number {first} on: a restore cannot go past them; take a new backup \
                 when the archive is written again",
                self.directory.display()
            );
        }
    }

    /// Waits a little until the archive has this change. Does not wait for a failing archive.
    pub(crate) fn wait_until_archived(&self, sequence: u64) {
        self.queue().wanted = sequence;
        self.changed.notify_all();
        self.wait(SEGMENT_PATIENCE, |queue| queue.archived.is_some_and(|last| last >= sequence));
    }

    /// Makes the thread archive the waiting groups, and end.
    pub(crate) fn end(&self) {
        self.queue().is_ended = true;
        self.changed.notify_all();
    }

    /// Like [`Self::end`], but waits a little for the thread, unless the archive is failing.
    pub(crate) fn end_and_wait(&self) {
        self.end();
        self.wait(CLOSE_PATIENCE, |queue| queue.behind_since.is_none());
        if self.queue().behind_since.is_some() {
            log::warn!(
                "the newest changes are not in the archive {}; the next start writes those that the write-ahead log still has",
                self.directory.display()
            );
        }
    }

    fn wait(&self, patience: Duration, is_done: impl Fn(&Queue) -> bool) {
        let waits = |queue: &mut Queue| !is_done(queue) && !queue.is_failing();
        let waited = self.changed.wait_timeout_while(self.queue(), patience, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Fails while the archive does not take changes.
    pub(crate) fn check(&self) -> Result<(), StoreFailure> {
        let queue = self.queue();
        if let Some(failure) = &queue.failure {
            return Err(failure.clone());
        }
        if queue.is_failing() {
            return Err(StoreFailure::new("the disk of the archive does not answer"));
        }
        Ok(())
    }

    pub(crate) fn metrics(&self) -> Vec<MetricFamily> {
        let (archived, waited) = {
            let queue = self.queue();
            (queue.archived.unwrap_or_default(), queue.waited())
        };
        let mut families = self.failures.collect();
        families.extend(self.lost_changes.collect());
        families.extend([
            gauge(
                "plantd_archived_revision",
                "The revision of the newest change in the archive; 0 before the first one.",
                archived as f64,
            ),
            gauge(
                "plantd_archive_waiting_seconds",
                "How long the archive has been behind; 0 when it has every change.",
                waited.as_secs_f64(),
            ),
        ]);
        families
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes pieces until no more groups come.
    fn run(&self, event_log: u32, marks: &[Totals]) {
        let open = || ArchiveWriter::open(&self.directory, event_log, marks);
        let Some((mut writer, lost)) = self.until_it_succeeds(open) else { return };
        if let Some((first, last)) = lost {
            self.note_lost(first, last, true);
        }
        self.note_archived(writer.archived(), 0);
        // Dropped at the end of this thread, which ends the merges.
        let _merges = writer.start_merges().inspect_err(|cause| log::warn!("{cause:#}"));
        while let Some((first, last, payloads)) = self.next_piece() {
            if self.until_it_succeeds(|| writer.append(first, last, &payloads)).is_none() {
                return;
            }
            self.note_archived(last, payloads.iter().map(Vec::len).sum());
        }
    }

    /// Tries until an attempt succeeds; `None` if the store has closed and the last attempt failed.
    fn until_it_succeeds<T>(&self, mut attempt: impl FnMut() -> anyhow::Result<T>) -> Option<T> {
        loop {
            match attempt() {
                Ok(done) => {
                    self.note(None);
                    return Some(done);
                }
                Err(cause) => self.note(Some(StoreFailure::new(cause))),
            }
            let is_open = |queue: &mut Queue| !queue.is_ended;
            let waited = self.changed.wait_timeout_while(self.queue(), PIECE_INTERVAL, is_open);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_ended {
                return None;
            }
        }
    }

    /// Waits until a piece is due, and takes its groups from the queue. Returns the numbers of the first and the last
    /// change, and the payloads; `None` when no more groups come.
    fn next_piece(&self) -> Option<(u64, u64, Vec<Vec<u8>>)> {
        let mut queue = self.queue();
        loop {
            let time_left = PIECE_INTERVAL.saturating_sub(queue.waited());
            let is_wanted = queue.wanted > queue.archived.unwrap_or_default();
            let is_due = !queue.waiting.is_empty() && (is_wanted || time_left.is_zero());
            if is_due || queue.bytes as u64 >= PIECE_BYTES || queue.is_ended {
                break;
            }
            let waited = self.changed.wait_timeout(queue, time_left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let WaitingGroup { first_sequence, mut last_sequence, payload, .. } =
            queue.waiting.pop_front()?;
        let (mut bytes, mut payloads) = (payload.len(), vec![payload]);
        // The waiting groups are consecutive, because only the oldest are ever lost.
        while (bytes as u64) < PIECE_BYTES
            && let Some(group) = queue.waiting.pop_front()
        {
            bytes += group.payload.len();
            last_sequence = group.last_sequence;
            payloads.push(group.payload);
        }
        Some((first_sequence, last_sequence, payloads))
    }

    /// Notes the outcome of an attempt.
    fn note(&self, failure: Option<StoreFailure>) {
        let had_failed = {
            let mut queue = self.queue();
            mem::replace(&mut queue.failure, failure.clone()).is_some()
        };
        self.changed.notify_all();
        let directory = self.directory.display();
        match failure {
            Some(cause) => {
                self.failures.inc();
                if !had_failed {
                    log::error!(
                        "the archive {directory} cannot be written, so the data folder alone has the newest changes: {cause}"
                    );
                }
            }
            None if had_failed => log::info!("the archive {directory} is written again"),
            None => {}
        }
    }

    /// Notes that the archive has everything up to a change. `bytes` is the size of the groups in the newest piece.
    fn note_archived(&self, archived: u64, bytes: usize) {
        let mut queue = self.queue();
        queue.archived = Some(archived);
        queue.has_lost = false;
        queue.bytes -= bytes;
        // The archive may already have groups that were in the write-ahead log when the store opened.
        while let Some(group) = queue.waiting.pop_front_if(|it| it.last_sequence <= archived) {
            queue.bytes -= group.payload.len();
        }
        queue.behind_since = queue.waiting.front().map(|group| group.since);
        drop(queue);
        self.changed.notify_all();
    }
}

impl Queue {
    /// How long the archive has been behind.
    fn waited(&self) -> Duration {
        self.behind_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn is_failing(&self) -> bool {
        self.failure.is_some() || self.waited() > FAILING_AFTER
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sled::backup::archive::pieces;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn when_too_many_groups_wait_the_oldest_are_lost_and_counted_and_leave_a_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("archive");
        fs::write(&directory, "no folder").expect("writes");
        let archiver = Archiver::start(directory.clone(), 7, Totals::default(), &[]);
        let archiver = archiver.expect("starts without its archive");
        let most = u64::try_from(WAITING_MAX_BYTES / MIB).expect("small");
        let (lost, last) = (6, 6 + most);
        for number in 1..=last {
            archiver.add(number, number, vec![0; MIB]);
        }
        assert_eq!(archiver.lost_changes.get(), lost);
        assert!(archiver.check().is_err(), "the archive is no folder");
        fs::remove_file(&directory).expect("removes");
        let lacks_some = |queue: &mut Queue| queue.archived != Some(last);
        let deadline = Duration::from_secs(60);
        let waited = archiver.changed.wait_timeout_while(archiver.queue(), deadline, lacks_some);
        assert_eq!(waited.expect("no panic").0.archived, Some(last), "it was not written");
        archiver.check().expect("it is written");
        let pieces = pieces(&directory).expect("reads");
        // The first piece marks where the archive was to begin.
        let ends: Vec<_> = pieces.iter().map(|it| (it.first_sequence, it.last_sequence)).collect();
        assert_eq!((ends[0], ends[1].0), ((1, 0), lost + 1));
        let follow = |pair: &[(u64, u64)]| pair[1].0 == pair[0].1 + 1;
        assert!(ends[1..].windows(2).all(follow), "{ends:?}");
        assert_eq!(ends.last().map(|(_, end)| *end), Some(last));
        archiver.end();
    }
}
