//! A merge: filled in short steps, and then sealed by a thread of its own, because neither opening nor syncing a large table
//! can be divided into steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow, bail};

use super::merge::{MergedEntries, Tables, levels_of};
use super::table_builder::TableBuilder;
use crate::sled::files::Files;
use crate::sled::tables::Table;

/// How many entries a step of a merge takes.
const ENTRIES_IN_A_STEP: usize = 1024;

/// A merge of which some entries are written.
pub(crate) struct MergeUnderWay {
    /// The number of the result.
    pub(crate) number: u64,
    pub(crate) inputs: Tables,
    /// Until everything is written.
    fill: Option<Fill>,
    /// Seals the result, once everything is written.
    sealing: Option<JoinHandle<anyhow::Result<Table>>>,
    is_abandoned: Arc<AtomicBool>,
}

struct Fill {
    entries: MergedEntries,
    output: TableBuilder,
}

impl MergeUnderWay {
    /// Begins to merge neighboring tables; `is_oldest` says whether no table is older. Events before `stored_from` are left
    /// out.
    pub(crate) fn begin(
        files: &Files,
        number: u64,
        inputs: Tables,
        is_oldest: bool,
        stored_from: u64,
    ) -> anyhow::Result<Self> {
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
        let plants: u64 = inputs.iter().map(|table| table.summary.plant_entries).sum();
        let output = files.create_table(number, usize::try_from(plants)?, Arc::new(advances))?;
        let entries = MergedEntries::new(levels_of(&inputs), is_oldest, stored_from);
        let fill = Some(Fill { entries, output });
        Ok(Self { number, inputs, fill, sealing: None, is_abandoned })
    }

    pub(crate) const fn is_filling(&self) -> bool {
        self.fill.is_some()
    }

    /// Whether the thread that seals the result has ended.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealing.as_ref().is_some_and(JoinHandle::is_finished)
    }

    pub(crate) fn has_input(&self, table: &Table) -> bool {
        self.inputs.iter().any(|input| input.metadata.number == table.metadata.number)
    }

    /// Merges some entries. Returns false after the last one.
    pub(crate) fn advance(&mut self) -> anyhow::Result<bool> {
        let Some(Fill { entries, output }) = &mut self.fill else { return Ok(false) };
        entries.take(ENTRIES_IN_A_STEP, output).context("merging tables")
    }

    /// Begins to seal the result, in a thread.
    pub(crate) fn begin_seal(&mut self, files: &Files) -> anyhow::Result<()> {
        let (Some(newest), Some(oldest)) = (self.inputs.first(), self.inputs.last()) else {
            bail!("a merge without inputs");
        };
        let sequences = (oldest.summary.sequences.0, newest.summary.sequences.1);
        let (files, number) = (files.clone(), self.number);
        let Fill { output, .. } = self.fill.take().context("a merge is sealed twice")?;
        let seal = move || {
            let metadata = files.seal(output.finish(sequences)?, number)?;
            files.open_table(metadata)
        };
        let thread = thread::Builder::new().name("plant-seal".to_owned()).spawn(seal);
        self.sealing = Some(thread.context("cannot start the thread that seals a table")?);
        Ok(())
    }

    /// The inputs, and the sealed result.
    pub(crate) fn end(self) -> anyhow::Result<(Tables, Table)> {
        let sealed = self.sealing.context("a merge ends before its seal")?.join();
        let table = sealed.unwrap_or_else(|_| Err(anyhow!("the seal of a table panicked")))?;
        Ok((self.inputs, table))
    }

    /// Ends the merge, and the thread that seals its result. The table of a seal that has succeeded meanwhile is closed.
    pub(crate) fn abandon(self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
        if let Some(Err(_)) = self.sealing.map(JoinHandle::join) {
            log::error!("a thread of the store panicked");
        }
    }
}
