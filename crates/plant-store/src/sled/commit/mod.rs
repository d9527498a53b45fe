//! Group commit: the one thread that writes.
//!
//! The thread takes everything in the queue as one [group], decides each write in turn, appends the group to the
//! write-ahead log as one record, makes the group visible in the memtable, and answers. It never waits for a group to
//! fill.

pub(crate) mod back_pressure;
pub(crate) mod change;
mod group;
pub(crate) mod recovery;
pub(crate) mod request;
pub(crate) mod write_ahead_log;

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use self::back_pressure::delay;
use self::group::{Decided, OpenGroup};
use self::request::Request;
use self::write_ahead_log::{WriteAheadLog, payload_of};
use crate::sled::backup::archive::thread::Archiver;
use crate::sled::compaction::thread::CompactionThread;
use crate::sled::health::disk_space::DiskSpace;
use crate::sled::health::metrics::EngineMetrics;
use crate::sled::health::{LOOK_INTERVAL, StoreHealth, Watch};
use crate::sled::tree::MergeTree;
use crate::{BATCH_MAX_WRITES, DiskShortage, fault};

/// The most writes in a group.
const MAX_GROUP: usize = 1024;

// A batch is carried out in one group.
const _: () = assert!(BATCH_MAX_WRITES <= MAX_GROUP);

/// How long the thread polls an empty queue, yielding, while one client writes alone. Waking the thread would take
/// longer.
const AWAKE: Duration = Duration::from_micros(200);

/// After this many groups of one write each, one client counts as writing alone.
const ALONE_AFTER: u32 = 8;

#[derive(Debug)]
pub(crate) enum Message {
    Request(Request),
    /// The writes of an import, and its permit, held until all are carried out.
    Import(Vec<Request>, OwnedSemaphorePermit),
    /// Carries out the waiting writes, reports that, and ends.
    Close(oneshot::Sender<()>),
}

/// Takes all waiting messages, at least one. Polls for `awake`, then sleeps until a message arrives. Returns false once
/// the queue is closed and empty.
fn receive(
    messages: &mut mpsc::Receiver<Message>,
    received: &mut Vec<Message>,
    awake: Duration,
) -> bool {
    let begun = Instant::now();
    while messages.is_empty() && begun.elapsed() < awake {
        thread::yield_now();
    }
    messages.blocking_recv_many(received, MAX_GROUP) > 0
}

pub(crate) struct Committer {
    pub(crate) tree: Arc<MergeTree>,
    pub(crate) write_ahead_log: WriteAheadLog,
    /// Flushes memtables, which frees log segments.
    pub(crate) compaction: CompactionThread,
    pub(crate) archive: Option<Arc<Archiver>>,
    pub(crate) changes_in_memory: usize,
    pub(crate) health: Arc<StoreHealth>,
    pub(crate) disk_space: Arc<DiskSpace>,
    pub(crate) metrics: Arc<EngineMetrics>,
}

/// Starts the commit thread and its watchdog. The watchdog ends with the commit thread.
pub(crate) fn spawn(
    mut committer: Committer,
    mut messages: mpsc::Receiver<Message>,
) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let watched = Arc::clone(&committer.health);
    let (alive, commit_thread_alive) = std::sync::mpsc::channel::<()>();
    let commit_thread = thread::Builder::new()
        .name("plant-commit".to_owned())
        .spawn(move || {
            let _alive = alive;
            let ended = panic::catch_unwind(AssertUnwindSafe(|| committer.run(&mut messages)));
            if ended.is_err() {
                committer.health.fail(anyhow!("the commit thread panicked"));
            }
            if let Some(archive) = &committer.archive {
                archive.end();
            }
        })
        .context("cannot start the commit thread")?;
    let watchdog = thread::Builder::new()
        .name("plant-watchdog".to_owned())
        .spawn(move || {
            let mut watch = Watch::default();
            // The commit thread drops its end of the channel when it ends.
            while let Err(RecvTimeoutError::Timeout) =
                commit_thread_alive.recv_timeout(LOOK_INTERVAL)
            {
                watch.look(&watched);
            }
        })
        .context("cannot start the watchdog thread")?;
    Ok(vec![commit_thread, watchdog])
}

impl Committer {
    /// Carries out messages until the queue is closed and empty, or the store has failed.
    fn run(&mut self, messages: &mut mpsc::Receiver<Message>) {
        let mut received = Vec::with_capacity(MAX_GROUP);
        let mut waiting = VecDeque::with_capacity(MAX_GROUP);
        let (mut permits, mut closing) = (Vec::new(), Vec::new());
        let (mut alone, mut awake) = (0_u32, Duration::ZERO);
        while receive(messages, &mut received, awake) {
            for message in received.drain(..) {
                match message {
                    Message::Request(request) => waiting.push_back(request),
                    Message::Import(writes, permit) => {
                        waiting.extend(writes);
                        permits.push(permit);
                    }
                    Message::Close(done) => {
                        messages.close();
                        closing.push(done);
                    }
                }
            }
            alone = if waiting.len() == 1 { alone.saturating_add(1) } else { 0 };
            awake = if alone >= ALONE_AFTER { AWAKE } else { Duration::ZERO };
            while !waiting.is_empty() {
                if self.health.failure().is_some() {
                    // Dropping the queue tells the waiting callers of the failure.
                    return;
                }
                self.commit_and_answer(&mut waiting);
            }
            permits.clear();
        }
        if self.health.failure().is_some() {
            return;
        }
        self.health.group_begins();
        let ended = self.last_flush();
        self.health.group_ends();
        if let Err(cause) = ended {
            self.health.fail(cause);
        }
        for done in closing {
            let _ = done.send(());
        }
    }

    /// Carries out the oldest waiting requests, at most [`MAX_GROUP`] writes, as one group.
    fn commit_and_answer(&mut self, waiting: &mut VecDeque<Request>) {
        let mut room = MAX_GROUP;
        let mut requests = Vec::with_capacity(waiting.len().min(MAX_GROUP));
        while let Some(request) = waiting.pop_front_if(|request| request.writes() <= room) {
            room -= request.writes();
            requests.push(request);
        }
        self.health.group_begins();
        let committed = panic::catch_unwind(AssertUnwindSafe(|| self.commit(requests)))
            .unwrap_or_else(|_| Err(anyhow!("a commit panicked")));
        self.health.group_ends();

        match committed {
            Ok(decided) => {
                fault::point("before-answers");
                decided.into_iter().for_each(Decided::answer);
            }
            // The senders are dropped, so the callers look for the failure in `health`.
            Err(cause) => self.health.fail(cause),
        }
    }

    /// Decides each request on the result of those before it, and makes the changes durable. After an error, it is
    /// unknown which changes are on disk.
    fn commit(&mut self, requests: Vec<Request>) -> anyhow::Result<Vec<Decided>> {
        fault::point("before-decision");
        let begun = Instant::now();
        if let Some(shortage) = self.disk_space.shortage() {
            let refused = |request| Decided::refused(request, shortage);
            return Ok(requests.into_iter().map(refused).collect());
        }
        let mut group = OpenGroup::after(&self.tree, requests.iter().map(Request::writes).sum());
        let decided = requests.into_iter().map(|request| group.decide(request));
        let decided = decided.collect::<anyhow::Result<Vec<_>>>()?;
        let group = group.into_changes();
        if !group.changes.is_empty() {
            let payload = payload_of(&group)?;
            if !self.append(&payload)? {
                // By now the disk may have room again.
                let shortage = self.disk_space.shortage().unwrap_or(DiskShortage::Space);
                let refused = |decided: Decided| decided.into_refused(shortage);
                return Ok(decided.into_iter().map(refused).collect());
            }
            fault::point("after-log-append");
            if let Some(archive) = &self.archive {
                archive.add(group.first_sequence, group.last_sequence(), payload);
            }
            self.metrics.commit.note_commit(group.changes.len(), begun.elapsed());
            self.tree.apply(&group)?;
            fault::point("after-shown");
        }
        Ok(decided)
    }

    /// Appends a group to the write-ahead log. Returns false, and appends nothing, if the disk is full and the group
    /// needs the other segment, whose changes are in no table yet.
    fn append(&mut self, payload: &[u8]) -> anyhow::Result<bool> {
        let (changes, tables) = {
            let levels = self.tree.read();
            (levels.active_changes(), levels.tables.len())
        };
        if changes >= self.changes_in_memory || !self.write_ahead_log.has_room_for(payload) {
            if !self.wait_for_compaction()? {
                return Ok(false);
            }
            // The store may have failed during a long wait, and the callers may have got the error.
            self.health.check()?;
            if let Some(archive) = &self.archive {
                // The changes of the other segment end before the memtable that is about to be frozen.
                let last_in_segment = self.tree.read().first_sequence() - 1;
                archive.wait_until_archived(last_in_segment);
            }
            fault::point("before-segment-switch");
            self.write_ahead_log.switch_segment();
            fault::point("after-segment-switch");
            self.flush()?;
        } else {
            let fill_ratio = self
                .write_ahead_log
                .fill_ratio()
                .max(changes as f64 / self.changes_in_memory as f64);
            let delay = delay(self.compaction.is_flushing(), fill_ratio, tables);
            if !delay.is_zero() {
                thread::sleep(delay);
                self.metrics.delayed_seconds.observe(delay.as_secs_f64());
            }
        }
        let begun = Instant::now();
        self.write_ahead_log.append(payload)?;
        self.metrics.sync_seconds.observe(begun.elapsed().as_secs_f64());
        Ok(true)
    }

    /// Waits until the running flush ends. Returns false if the disk is full.
    fn wait_for_compaction(&mut self) -> anyhow::Result<bool> {
        if !self.compaction.is_flushing() {
            return Ok(true);
        }
        let begun = Instant::now();
        self.health.waits_for_compaction(true);
        let waited = self.compaction.wait(&self.disk_space);
        self.health.waits_for_compaction(false);
        self.metrics.stopped_seconds.observe(begun.elapsed().as_secs_f64());
        waited
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let (immutable, totals) = self.tree.freeze()?;
        self.compaction.begin(immutable, totals)
    }

    /// Flushes all memtables when the repository closes, so that the next start has nothing to replay.
    fn last_flush(&mut self) -> anyhow::Result<()> {
        fault::point("before-last-flush");
        let mut is_written = self.wait_for_compaction()?;
        if is_written && self.tree.read().active_changes() > 0 {
            self.flush()?;
            is_written = self.wait_for_compaction()?;
        }
        if let Some(archive) = &self.archive {
            archive.end_and_wait();
        }
        ensure!(
            is_written,
            "the disk is full; everything acknowledged is in the write-ahead log, and the next start with room \
             writes it as a table"
        );
        Ok(())
    }
}
