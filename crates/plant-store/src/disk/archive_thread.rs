//! The thread that copies the write-ahead log to an archive.
//!
//! The commit thread hands over each group once the group is in the write-ahead log. An archive that is slow, full or gone
//! never stops the writes: groups wait in memory, and once too many wait, the oldest are lost to the archive. That leaves a
//! gap, which is logged and counted, and a restore refuses to go past it.

use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use prometheus::IntCounter;
use prometheus::core::Collector as _;

use super::archive::{PieceName, pieces, write_piece};
use super::change::ChangeGroup;
use super::write_ahead_log::payload_of;
use crate::StoreFailure;
use crate::metrics::{MetricFamily, counter, gauge};

/// Changes reach the archive at the latest after this time, unless it fails.
const PIECE_INTERVAL: Duration = Duration::from_secs(1);

/// A piece is complete with this many bytes of groups.
const PIECE_BYTES: usize = 8 * 1024 * 1024;

/// The most bytes of groups that wait for an archive that fails.
const WAITING_MAX_BYTES: usize = 64 * 1024 * 1024;

/// How long a segment of the write-ahead log waits, before it is overwritten, for an archive that has not failed yet.
const SEGMENT_PATIENCE: Duration = Duration::from_secs(1);

/// How long a store that closes waits for an archive that has not failed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// An archive that has not taken a change for this long counts as failing: its disk may never answer.
const FAILING_AFTER: Duration = Duration::from_secs(5);

/// A group that is to be archived.
#[derive(Clone, Debug)]
struct WaitingGroup {
    sequences: (u64, u64),
    payload: Arc<[u8]>,
    since: Instant,
}

/// What the commit thread, the archive thread and readers of the state share.
#[derive(Debug)]
pub(super) struct Archiver {
    directory: PathBuf,
    event_log: u32,
    /// The number of the last change when the store was opened.
    opened_at: u64,
    queue: Mutex<Queue>,
    /// Notified whenever the queue changes.
    changed: Condvar,
    failures: IntCounter,
    lost_changes: IntCounter,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<WaitingGroup>,
    waiting_bytes: usize,
    /// The last change in the archive; 0 before the first one, and while the archive could not be read.
    archived: u64,
    /// Why the last attempt failed.
    failure: Option<StoreFailure>,
    /// No more groups come.
    is_ended: bool,
}

impl Archiver {
    /// Starts the thread. `groups` are the newest in the write-ahead log; what the archive lacks of them is written first. The
    /// thread ends after [`Self::end`], and nothing joins it, because a disk may never answer.
    pub(super) fn start(
        directory: PathBuf,
        event_log: u32,
        opened_at: u64,
        groups: &[ChangeGroup],
    ) -> anyhow::Result<Arc<Self>> {
        let state = Arc::new(Self {
            directory,
            event_log,
            opened_at,
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
        // A restore leaves a group without changes.
        for group in groups.iter().filter(|group| !group.changes.is_empty()) {
            state.add((group.first_sequence, group.last_sequence()), payload_of(group)?);
        }
        let of_thread = Arc::clone(&state);
        thread::Builder::new()
            .name("plant-archive".to_owned())
            .spawn(move || of_thread.run())
            .context("cannot start the thread of the archive")?;
        if let Some(newest) = groups.last() {
            // The first write may overwrite the segment that has them.
            state.wait_until_archived(newest.last_sequence());
        }
        Ok(state)
    }

    /// Hands over a group that is in the write-ahead log.
    pub(super) fn add(&self, sequences: (u64, u64), payload: Vec<u8>) {
        let mut queue = self.queue();
        queue.waiting_bytes += payload.len();
        let payload = payload.into();
        queue.waiting.push_back(WaitingGroup { sequences, payload, since: Instant::now() });
        while queue.waiting_bytes > WAITING_MAX_BYTES {
            let Some(lost) = queue.waiting.pop_front() else { break };
            queue.waiting_bytes -= lost.payload.len();
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// Waits a little until the archive has this change, unless the archive fails.
    pub(super) fn wait_until_archived(&self, sequence: u64) {
        self.wait(SEGMENT_PATIENCE, |queue| queue.archived >= sequence);
    }

    /// Lets the thread archive what waits, and end. Waits for that a little, unless the archive fails.
    pub(super) fn end(&self) {
        self.queue().is_ended = true;
        self.changed.notify_all();
        self.wait(CLOSE_PATIENCE, |queue| queue.waiting.is_empty());
        if !self.queue().waiting.is_empty() {
            log::warn!(
                "the newest changes are not in the archive {} yet; the next start writes them",
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
    pub(super) fn check(&self) -> Result<(), StoreFailure> {
        let queue = self.queue();
        if let Some(failure) = &queue.failure {
            return Err(failure.clone());
        }
        if queue.is_failing() {
            return Err(StoreFailure::new("the disk of the archive does not answer"));
        }
        Ok(())
    }

    pub(super) fn metrics(&self) -> Vec<MetricFamily> {
        let (archived, waited) = {
            let queue = self.queue();
            (queue.archived, queue.waited())
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
                "How long the oldest change that is not in the archive has waited; 0 when none waits.",
                waited.as_secs_f64(),
            ),
        ]);
        families
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes pieces until there will be no more.
    fn run(&self) {
        let mut is_open = false;
        while let Some(groups) = self.next_groups() {
            let opened = if is_open { Ok(()) } else { self.open_archive() };
            is_open |= opened.is_ok();
            let attempted = opened.and_then(|()| self.archive(&groups));
            let has_failed = attempted.is_err();
            self.note(attempted);
            if has_failed && !self.wait_before_retry() {
                return;
            }
        }
    }

    /// Waits for the groups of the next piece; `None` when no more come.
    fn next_groups(&self) -> Option<Vec<WaitingGroup>> {
        let mut queue = self.queue();
        loop {
            let time_left = PIECE_INTERVAL.saturating_sub(queue.waited());
            let is_due = !queue.waiting.is_empty() && time_left.is_zero();
            if is_due || queue.waiting_bytes >= PIECE_BYTES || queue.is_ended {
                break;
            }
            let waited = self.changed.wait_timeout(queue, time_left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut bytes = 0;
        let groups = queue.waiting.iter().take_while(|group| {
            let is_in_piece = bytes < PIECE_BYTES;
            bytes += group.payload.len();
            is_in_piece
        });
        let groups: Vec<_> = groups.cloned().collect();
        (!groups.is_empty()).then_some(groups)
    }

    /// Archives groups, and takes them from the queue. The archive may have some of them already: they were in the
    /// write-ahead log when the store opened.
    fn archive(&self, groups: &[WaitingGroup]) -> anyhow::Result<()> {
        let archived = self.queue().archived;
        let new = &groups[groups.partition_point(|group| group.sequences.1 <= archived)..];
        let (Some(first), Some(last)) = (new.first(), new.last()) else {
            self.take_archived(archived);
            return Ok(());
        };
        let (first_sequence, last_sequence) = (first.sequences.0, last.sequences.1);
        let name = PieceName { event_log: self.event_log, first_sequence, last_sequence };
        write_piece(&self.directory, name, new.iter().map(|group| &*group.payload))?;
        if archived > 0 && first_sequence > archived + 1 {
            self.lost_changes.inc_by(first_sequence - archived - 1);
            log::error!(
                "the archive {} has lost the changes {} to {}: a restore cannot go past them; take a new backup",
                self.directory.display(),
                archived + 1,
                first_sequence - 1
            );
        }
        self.take_archived(last_sequence);
        Ok(())
    }

    /// Notes how an attempt to write a piece has ended.
    fn note(&self, attempted: anyhow::Result<()>) {
        let failure = attempted.err().map(StoreFailure::new);
        let mut queue = self.queue();
        let had_failed = queue.failure.is_some();
        queue.failure.clone_from(&failure);
        drop(queue);
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

    /// Returns false when the store has closed: then there is no further attempt.
    fn wait_before_retry(&self) -> bool {
        let is_open = |queue: &mut Queue| !queue.is_ended;
        let waited = self.changed.wait_timeout_while(self.queue(), PIECE_INTERVAL, is_open);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_ended
    }

    /// Makes the archive if it is missing, and looks for its newest change of this log.
    fn open_archive(&self) -> anyhow::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cause).with_context(|| {
                    format!("cannot make the folder {}", self.directory.display())
                });
            }
            _ => {}
        }
        let pieces = pieces(&self.directory)?;
        let of_log = pieces.iter().filter(|piece| piece.event_log == self.event_log);
        let archived = of_log.map(|piece| piece.last_sequence).max().unwrap_or_default();
        ensure!(
            archived <= self.opened_at,
            "it has changes up to number {archived}, and the data folder had {} when it was opened: the folder is an \
             older copy; restore a backup instead, or begin another archive",
            self.opened_at
        );
        self.queue().archived = archived;
        Ok(())
    }

    /// Notes that the archive has everything up to a change.
    fn take_archived(&self, archived: u64) {
        let mut queue = self.queue();
        queue.archived = archived;
        while let Some(group) = queue.waiting.front()
            && group.sequences.1 <= archived
        {
            queue.waiting_bytes -= group.payload.len();
            queue.waiting.pop_front();
        }
    }
}

impl Queue {
    /// How long the oldest group has waited.
    fn waited(&self) -> Duration {
        self.waiting.front().map_or(Duration::ZERO, |group| group.since.elapsed())
    }

    fn is_failing(&self) -> bool {
        self.failure.is_some() || self.waited() > FAILING_AFTER
    }
}
