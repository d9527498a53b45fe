//! Checkpoints: what sled has been given is brought to the disk, so that the journal may forget it.

use std::fs::File;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::{Context as _, anyhow};

/// The thread that makes checkpoints while commits go on. It is started once: a commit must not fail
/// because there are no threads or file descriptors left.
#[derive(Debug)]
pub(super) struct Checkpointer {
    orders: SyncSender<u64>,
    reports: Receiver<anyhow::Result<u64>>,
    is_under_way: bool,
}

impl Checkpointer {
    pub(super) fn start(db: sled::Db, file: File) -> anyhow::Result<Self> {
        let (orders, ordered) = sync_channel(1);
        let (report, reports) = sync_channel(1);
        thread::Builder::new()
            .name("plant-checkpoint".to_owned())
            .spawn(move || {
                // It ends when the one who orders is gone.
                for mark in ordered {
                    if report.send(checkpoint(&db, &file).map(|()| mark)).is_err() {
                        break;
                    }
                }
            })
            .context("cannot start the thread that makes checkpoints")?;
        Ok(Self { orders, reports, is_under_way: false })
    }

    /// Begins a checkpoint of everything that was applied so far. None may be under way. The mark is
    /// what [`Self::look`] or [`Self::wait`] give back when it has ended.
    pub(super) fn begin(&mut self, mark: u64) -> anyhow::Result<()> {
        self.orders.send(mark).map_err(|_| thread_is_gone())?;
        self.is_under_way = true;
        Ok(())
    }

    /// The mark of the checkpoint that has ended meanwhile, if one has.
    pub(super) fn look(&mut self) -> anyhow::Result<Option<u64>> {
        if !self.is_under_way {
            return Ok(None);
        }
        let Ok(report) = self.reports.try_recv() else { return Ok(None) };
        self.is_under_way = false;
        report.context("a checkpoint failed").map(Some)
    }

    /// Waits for the checkpoint that is under way, if one is.
    pub(super) fn wait(&mut self) -> anyhow::Result<Option<u64>> {
        if !self.is_under_way {
            return Ok(None);
        }
        self.is_under_way = false;
        let report = self.reports.recv().map_err(|_| thread_is_gone())?;
        report.context("a checkpoint failed").map(Some)
    }
}

/// Brings everything that sled has been given to the disk. sled's flush alone does not: on Linux it
/// is `sync_file_range`, which leaves the data in the disk's volatile cache and the file's length
/// unwritten.
pub(super) fn checkpoint(db: &sled::Db, file: &File) -> anyhow::Result<()> {
    db.flush().context("flushing the database")?;
    file.sync_data().context("syncing the database")
}

fn thread_is_gone() -> anyhow::Error {
    anyhow!("the thread that makes checkpoints has ended")
}
