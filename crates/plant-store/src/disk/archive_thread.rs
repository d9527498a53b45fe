//! The thread that copies the write-ahead log to an archive.
//!
//! The commit thread hands over each group once the group is in the write-ahead log. An archive that is slow, full or gone
//! never stops the writes: groups wait in memory, and once too many wait, the oldest are lost to the archive. That leaves a
//! gap, which is logged and counted, and a restore refuses to go past it.

use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::io;
use std::mem;
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
    /// The number of the first change that the thread gets.
    begins_at: u64,
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
    /// Since when the archive is behind, if it is.
    behind_since: Option<Instant>,
    /// The last change in the archive; 0 before the first one, and while the archive could not be read.
    archived: u64,
    /// Whether changes were lost since the last piece.
    has_lost: bool,
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
            begins_at: groups.first().map_or(opened_at + 1, |group| group.first_sequence),
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
        let (now, payload) = (Instant::now(), Arc::<[u8]>::from(payload));
        let mut queue = self.queue();
        queue.behind_since.get_or_insert(now);
        queue.waiting_bytes += payload.len();
        queue.waiting.push_back(WaitingGroup { sequences, payload, since: now });
        while queue.waiting_bytes > WAITING_MAX_BYTES {
            let Some(lost) = queue.waiting.pop_front() else { break };
            queue.waiting_bytes -= lost.payload.len();
            let (first, last) = lost.sequences;
            let had_lost = mem::replace(&mut queue.has_lost, true);
            self.note_lost(first, last, !had_lost);
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
                "How long the archive has been behind; 0 when it has every change.",
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
        let mut newest_piece = None;
        let mut is_open = false;
        while let Some(groups) = self.next_groups() {
            let mut attempt = || {
                if !is_open {
                    newest_piece = self.open_archive()?;
                    is_open = true;
                }
                self.archive(&groups, &mut newest_piece)
            };
            let attempted = attempt();
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
    fn archive(
        &self,
        groups: &[WaitingGroup],
        newest_piece: &mut Option<PieceName>,
    ) -> anyhow::Result<()> {
        let archived = newest_piece.map_or(0, |piece| piece.last_sequence);
        let new = &groups[groups.partition_point(|group| group.sequences.1 <= archived)..];
        if let (Some(first), Some(last)) = (new.first(), new.last()) {
            if let Some(piece) = *newest_piece {
                let path = piece.path(&self.directory);
                ensure!(
                    path.try_exists()?,
                    "{} is gone, so this is not the archive: mount it, or start the server again to begin a new one",
                    path.display()
                );
            }
            let (first_sequence, last_sequence) = (first.sequences.0, last.sequences.1);
            let piece = PieceName { event_log: self.event_log, first_sequence, last_sequence };
            write_piece(&self.directory, piece, new.iter().map(|group| &*group.payload))?;
            if newest_piece.replace(piece).is_none() {
                log::info!(
                    "the archive {} begins with the change {first_sequence}: a restore needs a backup of that moment or later",
                    self.directory.display()
                );
            }
        }
        self.take_archived(newest_piece.map_or(0, |piece| piece.last_sequence));
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

    /// Makes the archive if it is missing, and looks for its newest piece of this log.
    fn open_archive(&self) -> anyhow::Result<Option<PieceName>> {
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cause).with_context(|| {
                    format!("cannot make the folder {}", self.directory.display())
                });
            }
            _ => {}
        }
        let pieces = pieces(&self.directory)?;
        let newest = pieces.into_iter().rfind(|piece| piece.event_log == self.event_log);
        let Some(newest) = newest else { return Ok(None) };
        let archived = newest.last_sequence;
        ensure!(
            archived <= self.opened_at,
            "it has changes up to number {archived}, and the data folder had {} when it was opened: the folder is an \
             older copy; restore a backup instead, or begin another archive",
            self.opened_at
        );
        if self.begins_at > archived + 1 {
            self.note_lost(archived + 1, self.begins_at - 1, true);
        }
        Ok(Some(newest))
    }

    /// Notes that the archive has everything up to a change.
    fn take_archived(&self, archived: u64) {
        let mut queue = self.queue();
        queue.archived = archived;
        queue.has_lost = false;
        while let Some(group) = queue.waiting.front()
            && group.sequences.1 <= archived
        {
            queue.waiting_bytes -= group.payload.len();
            queue.waiting.pop_front();
        }
        queue.behind_since = queue.waiting.front().map(|group| group.since);
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
