//! The compaction thread.
//!
//! Merges run on threads of their own, so a flush never waits long for them. Once the manifest on disk names the table
//! of a memtable, the log segment with the same changes may be overwritten.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow};

use crate::sled::commit::change::Totals;
use crate::sled::compaction::{Compactor, MERGE_LOOK_INTERVAL};
use crate::sled::health::disk_space::DiskSpace;
use crate::sled::health::{LOOK_INTERVAL, StoreHealth};
use crate::sled::memtable::Memtable;

/// A memtable to flush, and the totals after its last event.
type Order = (Arc<Memtable>, Totals);

/// The commit thread's handle of the compaction thread. The compaction thread starts with the store, so that a commit
/// cannot fail because the system has no thread left.
#[derive(Debug)]
pub(crate) struct CompactionThread {
    orders: SyncSender<Order>,
    /// One report for each flushed memtable. A failure disconnects the channel.
    reports: Receiver<()>,
    is_flushing: bool,
}

impl CompactionThread {
    /// Starts the thread, which ends when the handle is dropped. A compaction that fails or panics fails the store at
    /// once, because the commit thread may not ask for a report for a long time.
    pub(crate) fn start(
        mut compactor: Compactor,
        health: Arc<StoreHealth>,
    ) -> anyhow::Result<(Self, JoinHandle<()>)> {
        let (orders, ordered) = sync_channel(1);
        let (report, reports) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("plant-compact".to_owned())
            .spawn(move || {
                let run = || run(&mut compactor, &ordered, &report, &health);
                let ended = panic::catch_unwind(AssertUnwindSafe(run))
                    .unwrap_or_else(|_| Err(anyhow!("it panicked")));
                let note = |ended: anyhow::Result<()>| {
                    if let Err(cause) = ended {
                        health.fail(cause.context("a compaction failed"));
                    }
                };
                note(ended);
                // Tells the commit thread that no report will come: on a bad disk, ending the merges may take long.
                drop((ordered, report));
                let ended = panic::catch_unwind(AssertUnwindSafe(|| compactor.end()));
                note(ended.unwrap_or_else(|_| Err(anyhow!("it panicked"))));
            })
            .context("cannot start the compaction thread")?;
        Ok((Self { orders, reports, is_flushing: false }, thread))
    }

    /// Begins a flush. `totals` are those after the memtable's last event. The previous flush must have ended.
    pub(crate) fn begin(&mut self, memtable: Arc<Memtable>, totals: Totals) -> anyhow::Result<()> {
        self.orders.send((memtable, totals)).map_err(|_| thread_has_ended())?;
        self.is_flushing = true;
        Ok(())
    }

    pub(crate) fn is_flushing(&mut self) -> bool {
        self.is_flushing &= self.reports.try_recv().is_err();
        self.is_flushing
    }

    /// Waits for the flush. Returns false at once if the disk is full, because the flush may then take days.
    pub(crate) fn wait(&mut self, disk_space: &DiskSpace) -> anyhow::Result<bool> {
        while self.is_flushing {
            match self.reports.recv_timeout(LOOK_INTERVAL) {
                Ok(()) => self.is_flushing = false,
                Err(RecvTimeoutError::Timeout) if disk_space.is_full() => return Ok(false),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(thread_has_ended()),
            }
        }
        Ok(true)
    }
}

/// Carries out orders until their sender is dropped, and merges tables in between.
fn run(
    compactor: &mut Compactor,
    orders: &Receiver<Order>,
    report: &SyncSender<()>,
    health: &StoreHealth,
) -> anyhow::Result<()> {
    loop {
        let is_merging = compactor.look_at_merges()?;
        health.compaction_advances();
        let patience = if is_merging { MERGE_LOOK_INTERVAL } else { LOOK_INTERVAL };
        match orders.recv_timeout(patience) {
            Ok((memtable, totals)) => {
                compactor.flush(&memtable, totals)?;
                if report.send(()).is_err() {
                    return Ok(());
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn thread_has_ended() -> anyhow::Error {
    anyhow!("the compaction thread has ended")
}
