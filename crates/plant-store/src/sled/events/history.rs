//! Reads of the history of one plant.
//!
//! The history is a chain: the record of a plant has the number of its newest event, and each event that of the one
//! before. Before a creation comes the newest earlier deletion, if there is one.

use anyhow::Context as _;
use plant_domain::{Plant, PlantId};

use super::EventLog;
use super::record::EventRecord;
use crate::sled::keys::MAX_SEQUENCE;
use crate::{EventKind, HistoryPage, HistoryRequest, PastChange, Revision};

/// A place in the history of a plant.
enum Link {
    /// An event, and the plant after it if that is the current one.
    Event(u64, Option<Plant>),
    /// The plant was never there before.
    Begin,
    /// The changes before are forgotten.
    Forgotten,
}

impl EventLog {
    /// A page of the changes of a plant, newest first; `None` if nothing is known of the plant, or of the revision before
    /// which the page begins.
    pub(crate) fn history(&self, request: HistoryRequest) -> anyhow::Result<Option<HistoryPage>> {
        let id = request.id;
        let read = || {
            let start = match request.before {
                Some(before) => self.link_before(id, before.get())?,
                None => self.newest_link(id)?,
            };
            start.map(|start| self.page_of_history(id, start, request.limit.max(1))).transpose()
        };
        read().with_context(|| format!("cannot read the history of plant {id}"))
    }

    fn page_of_history(
        &self,
        id: PlantId,
        mut link: Link,
        limit: usize,
    ) -> anyhow::Result<HistoryPage> {
        let mut page = HistoryPage::default();
        while let Link::Event(sequence, current) = link {
            let Some((event, plant)) = self.change(id, sequence, current)? else {
                link = Link::Forgotten;
                break;
            };
            if page.changes.len() == limit {
                page.next = page.changes.last().map(|change| change.revision);
                return Ok(page);
            }
            link = self.older_link(sequence, &event)?;
            page.changes.push(PastChange {
                revision: Revision::from(sequence),
                kind: event.core.kind,
                at: event.at(),
                by: event.by,
                plant,
            });
        }
        page.is_cut = matches!(link, Link::Forgotten);
        Ok(page)
    }

    /// The newest event of a plant; `None` if nothing is known of the plant.
    fn newest_link(&self, id: PlantId) -> anyhow::Result<Option<Link>> {
        if let Some(record) = self.tree.record(id)? {
            return Ok(Some(Link::Event(record.decode()?.revision, Some(record.to_plant()?))));
        }
        let deletion = self.deletion_before(id, MAX_SEQUENCE)?;
        Ok(deletion.map(|sequence| Link::Event(sequence, None)))
    }

    /// The event before one; `None` if that one is not known as an event of the plant.
    fn link_before(&self, id: PlantId, sequence: u64) -> anyhow::Result<Option<Link>> {
        let event = self.event_of(id, sequence)?;
        event.map(|event| self.older_link(sequence, &event)).transpose()
    }

    fn older_link(&self, sequence: u64, event: &EventRecord) -> anyhow::Result<Link> {
        Ok(match (event.core.kind, event.previous) {
            (EventKind::Created, _) => match self.deletion_before(event.id(), sequence)? {
                Some(deletion) => Link::Event(deletion, None),
                None => Link::Begin,
            },
            (_, Some(previous)) => Link::Event(previous, None),
            // An event of version 1.
            (_, None) => Link::Forgotten,
        })
    }

    /// An event, and the plant after it; `None` if they are forgotten.
    fn change(
        &self,
        id: PlantId,
        sequence: u64,
        current: Option<Plant>,
    ) -> anyhow::Result<Option<(EventRecord, Option<Plant>)>> {
        let Some(event) = self.event_of(id, sequence)? else { return Ok(None) };
        if event.core.kind == EventKind::Deleted {
            return Ok(Some((event, None)));
        }
        let plant = match current {
            Some(current) => Some(current),
            None => self.tree.replaced(sequence)?,
        };
        Ok(plant.map(|plant| (event, Some(plant))))
    }

    /// An event that is kept, if it is one of the plant.
    fn event_of(&self, id: PlantId, sequence: u64) -> anyhow::Result<Option<EventRecord>> {
        if sequence < self.tree.read().totals.history_from {
            return Ok(None);
        }
        Ok(self.tree.event(sequence)?.filter(|event| event.id() == id))
    }

    /// The newest deletion of a plant before a sequence number that is kept.
    fn deletion_before(&self, id: PlantId, sequence: u64) -> anyhow::Result<Option<u64>> {
        let deletion = self.tree.deletion_before(id, sequence)?;
        Ok(deletion.filter(|deletion| *deletion >= self.tree.read().totals.history_from))
    }
}
