//! Reading: what sled shows, which is what is on disk.

use std::ops::Bound;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::{PlantFilter, PlantId};

use super::database::Shared;
use super::layout::{
    self, EventRecord, PlantRecord, event_key, event_keys, event_sequence, plant_id, plant_key,
    plant_keys,
};
use crate::{Event, EventPage, Page, PageRequest, Revision, StoredPlant};

/// How many plants are looked at for one page. It bounds the time that a page takes when the filter
/// matches rarely.
const MAX_LOOKED_AT: usize = 10_000;

/// How many plants are taken from the tag index at a time.
pub(super) const TAG_RUN: usize = 1_024;

#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) db: sled::Db,
    pub(super) shared: Arc<Shared>,
    /// How many of the newest events are shown.
    pub(super) keep_events: u64,
}

impl Reader {
    pub(super) fn plant(&self, id: PlantId) -> anyhow::Result<Option<StoredPlant>> {
        let value = self.db.get(plant_key(id))?;
        value
            .map(|value| {
                let record: PlantRecord<'_> = layout::decode(&value)?;
                record.to_stored_plant(id)
            })
            .transpose()
            .with_context(|| format!("cannot read plant {id}"))
    }

    pub(super) fn count(&self) -> u64 {
        self.shared.state().plants
    }

    pub(super) fn page(&self, request: &PageRequest) -> anyhow::Result<Page> {
        let first = match request.after {
            Some(after) => after.next(),
            None => Some(PlantId::MIN),
        };
        let mut page = PageInProgress::new(request);
        if let Some(first) = first {
            match request.filter.tag() {
                Some(tag) => self.plants_with_tag(tag, first, &mut page)?,
                None => self.plants_from(first, &mut page)?,
            }
        }
        Ok(page.page)
    }

    fn plants_from(&self, first: PlantId, page: &mut PageInProgress<'_>) -> anyhow::Result<()> {
        for entry in self.db.range(plant_keys(first)) {
            let (key, value) = entry.context("cannot read the plants")?;
            let id = plant_id(&key)?;
            if page.ends_before(id) {
                break;
            }
            page.look_at(id, &value)?;
        }
        Ok(())
    }

    fn plants_with_tag(
        &self,
        tag: &str,
        first: PlantId,
        page: &mut PageInProgress<'_>,
    ) -> anyhow::Result<()> {
        let mut next = Some(first);
        while let Some(from) = next {
            if page.ends_before(from) {
                break;
            }
            let run = self.shared.tag_index.next_run(&self.db, tag, from, TAG_RUN)?;
            next = run.next;
            page.looked_at += 1;
            for id in run.ids {
                if page.ends_before(id) {
                    return Ok(());
                }
                // The plant may have lost the tag since; what counts is what it has now.
                if let Some(value) = self.db.get(plant_key(id)).context("cannot read a plant")? {
                    page.look_at(id, &value)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn events(&self, after: Revision, limit: usize) -> anyhow::Result<EventPage> {
        let state = self.shared.state();
        let first = after.get().saturating_add(1);
        let oldest = (state.last_sequence + 1).saturating_sub(self.keep_events);
        if first < oldest.max(state.kept_from) {
            return Ok(EventPage::Forgotten);
        }
        let mut events = Vec::<Event>::new();
        if first > state.last_sequence || limit == 0 {
            return Ok(EventPage::Kept(events));
        }
        let around = self.db.range(event_keys().start..=event_key(first).to_vec()).next_back();
        let later = (Bound::Excluded(event_key(first).to_vec()), Bound::Excluded(event_keys().end));
        for entry in around.into_iter().chain(self.db.range(later)) {
            let (key, value) = entry.context("cannot read the events")?;
            let first_of_record = event_sequence(&key)?;
            let record: EventRecord<'_> = layout::decode(&value)
                .with_context(|| format!("the event record from number {first_of_record} on"))?;
            for (sequence, event) in (first_of_record..).zip(record.events) {
                if sequence < first {
                    continue;
                }
                // The older ones may be removed while this reads.
                let follows = sequence == first + events.len() as u64;
                if events.len() == limit || !follows && !events.is_empty() {
                    return Ok(EventPage::Kept(events));
                }
                if !follows {
                    return Ok(EventPage::Forgotten);
                }
                let (revision, id) = (Revision::from(sequence), PlantId::from(event.id));
                events.push(Event { revision, kind: event.kind, id });
            }
        }
        Ok(if events.is_empty() { EventPage::Forgotten } else { EventPage::Kept(events) })
    }
}

/// A page as far as it is filled.
struct PageInProgress<'a> {
    filter: &'a PlantFilter,
    limit: usize,
    looked_at: usize,
    page: Page,
}

impl<'a> PageInProgress<'a> {
    fn new(request: &'a PageRequest) -> Self {
        let page = Page { plants: Vec::new(), next: None };
        Self { filter: &request.filter, limit: request.limit.max(1), looked_at: 0, page }
    }

    /// Whether the page is full, or has cost enough, when a plant with this id may follow. Then the
    /// next page begins with that.
    fn ends_before(&mut self, id: PlantId) -> bool {
        let ends = self.page.plants.len() >= self.limit || self.looked_at >= MAX_LOOKED_AT;
        if ends {
            self.page.next = id.previous();
        }
        ends
    }

    fn look_at(&mut self, id: PlantId, value: &[u8]) -> anyhow::Result<()> {
        self.looked_at += 1;
        let record: PlantRecord<'_> = layout::decode(value)
            .with_context(|| format!("the record of plant {id} is damaged"))?;
        if self.filter.matches(record.name, record.tag) {
            self.page.plants.push(record.to_stored_plant(id)?);
        }
        Ok(())
    }
}
