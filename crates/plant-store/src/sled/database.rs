//! What sled holds, and what goes with it in memory.

use std::fs::File;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;

use super::layout::{
    self, Change, EVENT_RECORD_BYTES, Event, EventKind, EventRecord, Group, PlantRecord, event_key,
    plant_key,
};
use super::tag_index::TagIndex;

/// What the newest event record says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) last_sequence: u64,
    pub(super) plants: u64,
}

pub(super) struct Database {
    pub(super) db: sled::Db,
    /// Our own handle on the file that sled writes to, for syncs that sled does not make: its flush
    /// is `sync_file_range` on Linux, which leaves the data in the disk's volatile cache and the
    /// file's length unwritten.
    pub(super) file: File,
    pub(super) state: State,
    pub(super) tag_index: TagIndex,
}

impl Database {
    /// Applies a group that is on disk in the journal.
    ///
    /// The writes go to sled one by one, for its batches cost two rolls of its log each. A kill in
    /// between leaves the first of them, in order; the event record comes last, so without it the
    /// group counts as not applied, and is applied again from the journal: each write here may be
    /// made twice.
    pub(super) fn apply(&mut self, group: &Group<'_>) -> anyhow::Result<()> {
        ensure!(group.first_sequence == self.state.last_sequence + 1, "a group is out of order");
        for (revision, change) in (group.first_sequence..).zip(&group.changes) {
            let id = PlantId::from(change.id);
            let record = PlantRecord {
                revision,
                idempotency: change.idempotency,
                name: change.name,
                tag: change.tag,
            };
            self.db.insert(plant_key(id), layout::encode(&record)?).context("writing a plant")?;
            if let Some(tag) = change.tag {
                self.tag_index.add(tag, id);
            }
        }
        let last_sequence = self.state.last_sequence + group.changes.len() as u64;
        self.tag_index.fold(&self.db, group.changes.len(), last_sequence)?;
        self.put_events(&group.changes)
    }

    /// Puts the events into as many records as their sizes ask for, and moves the state on.
    fn put_events(&mut self, changes: &[Change<'_>]) -> anyhow::Result<()> {
        let mut events = changes.iter().map(Event::of).peekable();
        while events.peek().is_some() {
            let mut record = EventRecord {
                plants: self.state.plants,
                indexed_through: self.tag_index.indexed_through(),
                events: Vec::with_capacity(changes.len()),
            };
            let mut bytes = 0;
            while let Some(event) =
                events.next_if(|next| bytes + next.max_bytes() <= EVENT_RECORD_BYTES)
            {
                bytes += event.max_bytes();
                record.plants += match event.kind {
                    EventKind::Created => 1,
                };
                record.events.push(event);
            }
            let key = event_key(self.state.last_sequence + 1);
            self.db.insert(key, layout::encode(&record)?).context("writing events")?;
            self.state.last_sequence += record.events.len() as u64;
            self.state.plants = record.plants;
        }
        Ok(())
    }

    /// Brings everything that was applied to the disk.
    pub(super) fn checkpoint(&self) -> anyhow::Result<()> {
        checkpoint(&self.db, &self.file)
    }

    /// As [`Self::checkpoint`], while the caller goes on.
    pub(super) fn begin_checkpoint(&self) -> anyhow::Result<JoinHandle<anyhow::Result<()>>> {
        let (db, file) = (self.db.clone(), self.file.try_clone()?);
        thread::Builder::new()
            .name("plant-checkpoint".to_owned())
            .spawn(move || checkpoint(&db, &file))
            .context("cannot start a checkpoint")
    }
}

fn checkpoint(db: &sled::Db, file: &File) -> anyhow::Result<()> {
    db.flush().context("flushing the database")?;
    file.sync_data().context("syncing the database")
}
