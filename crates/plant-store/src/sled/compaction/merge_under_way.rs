//! A merge in a thread of its own, so that memtables become tables meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow, bail};

use super::merge::{MergedEntries, Tables, levels_of};
use crate::fault;
use crate::sled::files::Files;
use crate::sled::tables::Table;

/// How many entries a step of a merge takes.
const ENTRIES_IN_A_STEP: usize = 1024;

/// A merge whose result is not shown to readers yet.
pub(crate) struct MergeUnderWay {
    /// The number of the result.
    pub(crate) number: u64,
    pub(crate) inputs: Tables,
    thread: JoinHandle<anyhow::Result<Table>>,
    is_abandoned: Arc<AtomicBool>,
}

impl MergeUnderWay {
    /// Begins to merge neighboring tables; `is_oldest` says whether no table is older. Events before `stored_from` are left
    /// out.
    pub(crate) fn begin(
        files: Files,
        number: u64,
        inputs: Tables,
        is_oldest: bool,
        stored_from: u64,
    ) -> anyhow::Result<Self> {
        let (Some(newest), Some(oldest)) = (inputs.first(), inputs.last()) else {
            bail!("a merge without inputs");
        };
        let sequences = (oldest.summary.sequences.0, newest.summary.sequences.1);
        let plants: u64 = inputs.iter().map(|table| table.summary.plant_entries).sum();
        let plants = usize::try_from(plants)?;
        let mut entries = MergedEntries::new(levels_of(&inputs), is_oldest, stored_from);
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let advances = {
            let (advances, is_abandoned) = (files.advances(), Arc::clone(&is_abandoned));
            move || {
                if is_abandoned.load(Ordering::Relaxed) {
                    bail!("the merge is abandoned");
                }
                advances()
            }
        };
        let merge = move || {
            let mut output = files.create_table(number, plants, Arc::new(advances))?;
            while entries.take(ENTRIES_IN_A_STEP, &mut output)? {
                fault::point("after-merge-step");
            }
            let metadata = files.seal(output.finish(sequences)?, number)?;
            files.open_table(metadata)
        };
        let thread = thread::Builder::new().name("plant-merge".to_owned()).spawn(merge);
        let thread = thread.context("cannot start the thread of a merge")?;
        Ok(Self { number, inputs, thread, is_abandoned })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn has_input(&self, table: &Table) -> bool {
        self.inputs.iter().any(|input| input.metadata.number == table.metadata.number)
    }

    /// Waits for the end. Returns the inputs, and the sealed result.
    pub(crate) fn end(self) -> anyhow::Result<(Tables, Table)> {
        let merged = self.thread.join().unwrap_or_else(|_| Err(anyhow!("a merge panicked")));
        Ok((self.inputs, merged.context("merging tables")?))
    }

    /// Ends the merge without its result.
    pub(crate) fn abandon(self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            log::error!("a thread of the store panicked");
        }
    }
}
