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
            // One more change than the page has tells whether another page follows.
            let changes = self.changes_before(id, before, limit.saturating_add(1))?;
            if changes.is_empty() && !self.knows(id, before)? {
                return Ok(None);
            }
            self.page_of(request, changes).map(Some)
        };
        read().with_context(|| format!("cannot read the history of plant {id}"))
    }

    fn page_of(
        &self,
        request: HistoryRequest,
        mut changes: Vec<PastChange>,
    ) -> anyhow::Result<HistoryPage> {
        let limit = request.limit.max(1);
        let has_more = changes.len() > limit;
        changes.truncate(limit);
        let oldest = changes.last().map(|change| change.revision);
        if has_more {
            return Ok(HistoryPage { changes, next: oldest, is_cut: false });
        }
        // An empty page comes after the change that the request names.
        let first = match (changes.last(), request.before) {
            (Some(oldest), _) => Some(oldest.kind),
            (None, Some(before)) => self
                .tree
                .event(before.get(), |event| {
                    Ok((event.id() == request.id).then_some(event.core.kind))
                })?
                .flatten(),
            (None, None) => None,
        };
        Ok(HistoryPage { changes, next: None, is_cut: first != Some(EventKind::Created) })
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

    /// Whether the plant exists, or a change of it is known.
    fn knows(&self, id: PlantId, before: Option<Revision>) -> anyhow::Result<bool> {
        Ok(self.tree.record(id)?.is_some()
            || (before.is_some() && !self.changes_before(id, None, 1)?.is_empty()))
    }
}
