//! Checkpoints: what sled has been given is brought to the disk, so that the journal may forget it.

use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use anyhow::{Context as _, anyhow};

use super::progress::Progress;
use crate::fault;

/// The thread that makes checkpoints while commits go on. It is started once: a commit must not fail
/// because there are no threads or file descriptors left.
#[derive(Debug)]
pub(super) struct Checkpointer {
    orders: SyncSender<u64>,
    /// The marks of those that have ended well. It is cut off by one that has failed.
    reports: Receiver<u64>,
    is_under_way: bool,
}

impl Checkpointer {
    /// Starts the thread. A checkpoint that fails, or panics, fails the store at once: the commit thread
    /// may not look at it for long.
    pub(super) fn start(db: sled::Db, file: File, progress: Arc<Progress>) -> anyhow::Result<Self> {
        let (orders, ordered) = sync_channel(1);
        let (report, reports) = sync_channel(1);
        thread::Builder::new()
            .name("plant-checkpoint".to_owned())
            .spawn(move || {
                // It ends when the one who orders is gone.
                for mark in ordered {
                    let ended = panic::catch_unwind(AssertUnwindSafe(|| checkpoint(&db, &file)))
                        .unwrap_or_else(|_| Err(anyhow!("it panicked")));
                    if let Err(cause) = ended {
                        progress.fail(cause.context("a checkpoint failed"));
                        break;
                    }
                    if report.send(mark).is_err() {
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
        match self.reports.try_recv() {
            Ok(mark) => {
                self.is_under_way = false;
                Ok(Some(mark))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(thread_is_gone()),
        }
    }

    /// Waits for the checkpoint that is under way, if one is.
    pub(super) fn wait(&mut self) -> anyhow::Result<Option<u64>> {
        if !self.is_under_way {
            return Ok(None);
        }
        self.is_under_way = false;
        self.reports.recv().map(Some).map_err(|_| thread_is_gone())
    }
}

/// Brings everything that sled has been given to the disk. sled's flush alone does not: on Linux it
/// is `sync_file_range`, which leaves the data in the disk's volatile cache and the file's length
/// unwritten.
pub(super) fn checkpoint(db: &sled::Db, file: &File) -> anyhow::Result<()> {
    fault::point("before-checkpoint-flush");
    db.flush().context("flushing the database")?;
    fault::point("before-checkpoint-sync");
    file.sync_data().context("syncing the database")?;
    fault::point("after-checkpoint-sync");
    Ok(())
}

fn thread_is_gone() -> anyhow::Error {
    anyhow!("the thread that makes checkpoints has ended")
}
