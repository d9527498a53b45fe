//! Reads of the history of one plant.

use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::PlantId;

use super::EventLog;
use crate::sled::compaction::merge::Merge;
use crate::sled::keys::{self, EventKey, MAX_SEQUENCE};
use crate::sled::tables::Map;
use crate::sled::tree::event_in;
use crate::{EventKind, HistoryPage, HistoryRequest, PastChange, Revision};

impl EventLog {
    /// A page of a plant's history; `None` if nothing is known of the plant.
    pub(crate) fn history(&self, request: HistoryRequest) -> anyhow::Result<Option<HistoryPage>> {
        let HistoryRequest { id, before, limit } = request;
        let limit = limit.max(1);
        let read = || {
            // Not after the changes: a plant that is created in between would seem to have lost its changes.
            let exists = self.tree.record(id)?.is_some();
            // One more change than the page has tells whether another page follows.
            let mut changes = self.changes_before(id, before, limit.saturating_add(1))?;
            if changes.len() > limit {
                changes.truncate(limit);
                let next = changes.last().map(|oldest| oldest.revision);
                return anyhow::Ok(Some(HistoryPage { changes, next, is_cut: false }));
            }
            let first = match changes.last() {
                Some(oldest) => Some(oldest.kind),
                None => self.first_known(id)?,
            };
            let is_cut = first != Some(EventKind::Created);
            let is_known = first.is_some() || exists;
            Ok(is_known.then_some(HistoryPage { changes, next: None, is_cut }))
        };
        read().with_context(|| format!("cannot read the history of plant {id}"))
    }

    /// The changes of a plant before a revision, newest first, at most `most`.
    fn changes_before(
        &self,
        id: PlantId,
        before: Option<Revision>,
        most: usize,
    ) -> anyhow::Result<Vec<PastChange>> {
        let before = before.map_or(MAX_SEQUENCE, Revision::get).clamp(1, MAX_SEQUENCE);
        let (recent, tables, totals) = {
            let levels = self.tree.read();
            let recent = levels.memtables().flat_map(|memtable| memtable.history(id, before));
            let recent =
                recent.take(most).map(|(sequence, event)| event.record()?.to_past_change(sequence));
            let recent = recent.collect::<anyhow::Result<Vec<_>>>()?;
            (recent, Arc::clone(&levels.tables), levels.totals)
        };
        let mut changes = recent;
        let mut index = Merge::new(&tables, Map::Events, &keys::history_key(id, before - 1));
        while changes.len() < most
            && let Some((key, _)) = index.next()?
            && let EventKey::ByPlant(of, sequence) = EventKey::of(key)?
            && of == id
            && sequence >= totals.history_from
        {
            let change = event_in(&tables, sequence, |event| event.to_past_change(sequence))?;
            changes.push(change.with_context(|| format!("event {sequence} is missing"))?);
        }
        Ok(changes)
    }

    /// The first change of a plant that is known.
    fn first_known(&self, id: PlantId) -> anyhow::Result<Option<EventKind>> {
        let (in_memory, tables, totals) = {
            let levels = self.tree.read();
            let of_plant = levels.memtables().filter_map(|it| it.history(id, MAX_SEQUENCE).last());
            let first = of_plant.last().map(|(_, event)| event.record()).transpose()?;
            (first.map(|event| event.core.kind), Arc::clone(&levels.tables), levels.totals)
        };
        let end = keys::history_key(id, totals.history_from);
        for table in tables.iter().rev() {
            // The last key up to `end` is in this block.
            let Some(mut block) = table.block_of(Map::Events, &end)? else { continue };
            let mut first = None;
            while block.advance()? && *block.key() <= end[..] {
                first = match EventKey::of(block.key())? {
                    EventKey::ByPlant(of, sequence) if of == id => Some(sequence),
                    _ => None,
                };
            }
            if let Some(sequence) = first {
                return event_in(&tables, sequence, |event| Ok(event.core.kind));
            }
        }
        Ok(in_memory)
    }
}
