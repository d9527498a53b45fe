//! A merge on a thread of its own, so that flushes go on meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail, ensure};

use super::merge::{MergedEntries, Tables, levels_of};
use crate::fault;
use crate::sled::files::Files;
use crate::sled::health::metrics::EngineMetrics;
use crate::sled::tables::seal::Advances;
use crate::sled::tables::{EntrySource as _, Table};

/// How many input entries a merge reads before it checks whether it is abandoned. Checking at each block is not enough,
/// because dropped entries fill no block.
const ENTRIES_BETWEEN_CHECKS: usize = 1024;

/// A merge whose result readers do not see yet. Dropping it abandons the merge, and waits for its thread.
pub(crate) struct MergeUnderWay {
    /// The number of the result.
    pub(crate) number: u64,
    pub(crate) inputs: Tables,
    /// Present until [`Self::end`].
    thread: Option<JoinHandle<anyhow::Result<Table>>>,
    is_abandoned: Arc<AtomicBool>,
}

impl MergeUnderWay {
    /// Begins to merge neighboring tables. `is_oldest` says whether no table is older. Drops events before
    /// `history_from`.
    pub(crate) fn begin(
        files: Files,
        metrics: Arc<EngineMetrics>,
        number: u64,
        inputs: Tables,
        is_oldest: bool,
        history_from: u64,
    ) -> anyhow::Result<Self> {
        let (Some(newest), Some(oldest)) = (inputs.first(), inputs.last()) else {
            bail!("a merge without inputs");
        };
        let sequences = (oldest.summary.sequences.0, newest.summary.sequences.1);
        let plants: u64 = inputs.iter().map(|table| table.summary.plant_entries).sum();
        let plants = usize::try_from(plants)?;
        let mut entries = MergedEntries::new(levels_of(&inputs), is_oldest, history_from);
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let goes_on: Advances = {
            let is_abandoned = Arc::clone(&is_abandoned);
            // Does not tell the watchdog: the progress of a merge must not hide a flush that hangs.
            Arc::new(move || {
                fault::point("in-merge");
                ensure!(!is_abandoned.load(Ordering::Relaxed), "the merge is abandoned");
                Ok(())
            })
        };
        let merge = move || {
            let begun = Instant::now();
            let mut output = files.create_table(number, plants, Arc::clone(&goes_on))?;
            while entries.take(ENTRIES_BETWEEN_CHECKS, &mut output)? {
                goes_on()?;
            }
            let metadata = files.seal(output.finish(sequences)?, number)?;
            let table = files.open_table(metadata)?;
            metrics.merge_seconds.inc_by(begun.elapsed().as_secs_f64());
            Ok(table)
        };
        let thread = thread::Builder::new().name("plant-merge".to_owned()).spawn(merge);
        let thread = Some(thread.context("cannot start the thread of a merge")?);
        Ok(Self { number, inputs, thread, is_abandoned })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(crate) fn has_input(&self, table: &Table) -> bool {
        self.inputs.iter().any(|input| input.metadata.number == table.metadata.number)
    }

    /// Makes the thread end soon, without a result.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    /// Waits for the thread. Returns the sealed result, or `None` if the merge was abandoned.
    pub(crate) fn end(&mut self) -> anyhow::Result<Option<Table>> {
        let thread = self.thread.take().context("a merge ends twice")?;
        match thread.join().unwrap_or_else(|_| Err(anyhow!("a merge panicked"))) {
            Err(_) if self.is_abandoned.load(Ordering::Relaxed) => Ok(None),
            merged => merged.map(Some).context("merging tables"),
        }
    }
}

impl Drop for MergeUnderWay {
    fn drop(&mut self) {
        self.abandon();
        // A thread that still runs would write to a folder that the next open in this process uses.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
