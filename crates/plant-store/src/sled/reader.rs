//! Reads: the memtables' contents override sled's contents. Both hold only changes that are on disk.
//!
//! A read checks memory before sled: a record leaves a memtable only after sled has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use plant_domain::{PlantFilter, PlantId};

use super::blocks;
use super::layout::{
    EventOfPlant, PLANT_PREFIX, decode_events, event_key, first_of_record, tag_blocks_prefix,
};
use super::memtable::Run;
use super::tree::MergeTree;
use crate::PAGE_MAX_WORK;
use crate::plant_record::{EncodedPlant, PlantRecord};
use crate::{Event, EventPage, Page, PageRequest, Revision, StoredPlant};

/// The most plants taken from memory, or from the tag index, at a time.
const RUN: usize = 256;

/// The most plants read from sled before compaction gets a turn. A write that waits for compaction waits for them too.
const MOST_UNDER_A_LOCK: usize = 1_024;

#[derive(Clone, Debug)]
pub(super) struct SledReader {
    pub(super) tree: Arc<MergeTree>,
    pub(super) keep_events: u64,
}

impl SledReader {
    pub(super) fn plant(&self, id: PlantId) -> anyhow::Result<Option<StoredPlant>> {
        let read = || {
            let record = self.tree.record(id)?;
            record.map(|record| record.decode()?.to_stored_plant(id)).transpose()
        };
        read().with_context(|| format!("cannot read plant {id}"))
    }

    pub(super) fn count(&self) -> u64 {
        self.tree.memtables.read().manifest.plants
    }

    pub(super) fn page(&self, request: &PageRequest) -> anyhow::Result<Page> {
        let mut next = request.first_id();
        let mut page = PageInProgress::new(request);
        while let Some(from) = next {
            if page.ends_before(from) {
                break;
            }
            next = match request.filter.tag() {
                Some(tag) => self.plants_with_tag(tag, from, &mut page)?,
                None => self.plants_from(from, &mut page)?,
            };
        }
        Ok(page.page)
    }

    /// Reads one run of plants from an id on, about as long as the page wants, and returns where the run ends.
    fn plants_from(
        &self,
        from: PlantId,
        page: &mut PageInProgress<'_>,
    ) -> anyhow::Result<Option<PlantId>> {
        let run = self.tree.memtables.read().plants_from(from, page.most_wanted());
        let Run { entries, next } = run;
        let recent =
            entries.iter().map(|(id, record)| (*id, record.as_ref().map(EncodedPlant::bytes)));
        let mut recent = recent.peekable();
        let (mut read, mut stopped_at) = (0, None);
        let _reading = self.tree.blocks.read()?;
        let visit = |id, record: &[u8]| {
            while let Some((id, record)) = recent.next_if(|(recent, _)| *recent < id) {
                if !page.takes(id, record)? {
                    return Ok(false);
                }
            }
            read += 1;
            if read > MOST_UNDER_A_LOCK {
                stopped_at = Some(id);
                return Ok(false);
            }
            let newer = recent.next_if(|(recent, _)| *recent == id);
            page.takes(id, newer.map_or(Some(record), |(_, newer)| newer))
        };
        let visited = blocks::visit_between(&self.tree.db, PLANT_PREFIX, from, next, visit);
        if !visited.context("cannot read the plants")? {
            return Ok(stopped_at);
        }
        for (id, record) in recent {
            if !page.takes(id, record)? {
                return Ok(None);
            }
        }
        Ok(next)
    }

    /// Like [`Self::plants_from`], for the plants with a tag.
    fn plants_with_tag(
        &self,
        tag: &str,
        from: PlantId,
        page: &mut PageInProgress<'_>,
    ) -> anyhow::Result<Option<PlantId>> {
        let Run { entries, mut next } = self.tree.memtables.read().plants_with_tag(tag, from, RUN);
        let mut ids = BTreeSet::new();
        {
            let _reading = self.tree.blocks.read()?;
            let prefix = tag_blocks_prefix(tag);
            let visited = blocks::visit_between(&self.tree.db, &prefix, from, next, |id, _| {
                let has_room = ids.len() < RUN;
                if has_room {
                    ids.insert(id);
                } else {
                    next = Some(id);
                }
                Ok(has_room)
            });
            visited.with_context(|| format!("reading the index of tag {tag:?}"))?;
        }
        let mut gone = 0;
        for (id, has_tag) in entries {
            if !has_tag {
                gone += 1;
                ids.remove(&id);
            } else if next.is_none_or(|next| id < next) {
                ids.insert(id);
            }
        }
        page.looked_at += 1 + gone;
        for id in ids {
            // The plant may have lost the tag in the meantime, so the filter checks its record.
            let record = self.tree.record(id).context("cannot read a plant")?;
            if !page.takes(id, record.as_ref().map(EncodedPlant::bytes))? {
                return Ok(None);
            }
        }
        Ok(next)
    }

    pub(super) fn events(&self, after: Revision, limit: usize) -> anyhow::Result<EventPage> {
        let first = after.get().saturating_add(1);
        let (manifest, in_sled, in_memory) = {
            let memtables = self.tree.memtables.read();
            let from = memtables.first_sequence();
            let of_page = (first.max(from)..=memtables.manifest.last_sequence).take(limit);
            let in_memory: Vec<_> =
                of_page.map_while(|sequence| memtables.event(sequence)).collect();
            (memtables.manifest, first..from, in_memory)
        };
        let oldest = (manifest.last_sequence + 1).saturating_sub(self.keep_events);
        if first < oldest.max(manifest.kept_from) {
            return Ok(EventPage::Forgotten);
        }
        let mut events = Vec::new();
        while let next = in_sled.start + events.len() as u64
            && events.len() < limit
            && in_sled.contains(&next)
        {
            let record = self.tree.db.get(event_key(next)).context("cannot read the events")?;
            // Compaction may have removed the record in the meantime.
            let Some(record) = record else { return Ok(EventPage::Forgotten) };
            let begin = first_of_record(next);
            let of_record = decode_events(begin, &record)?;
            let wanted = (begin..in_sled.end).zip(of_record).skip_while(|(event, _)| *event < next);
            let before = events.len();
            events.extend(wanted.map(|(_, event)| event));
            ensure!(events.len() > before, "the events from number {next} on are missing");
        }
        let numbers = first..=u64::MAX;
        let numbered = numbers.zip(events.into_iter().chain(in_memory)).take(limit);
        let to_event = |(sequence, event): (u64, EventOfPlant)| Event {
            revision: Revision::from(sequence),
            kind: event.kind,
            id: PlantId::from(event.id),
        };
        Ok(EventPage::Kept(numbered.map(to_event).collect()))
    }
}

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

    /// How many plants to read at once. Without a filter, every plant is on the page, so fewer suffice.
    fn most_wanted(&self) -> usize {
        // `looked_at` makes later runs longer when many plants were deleted.
        let wanted = self.limit - self.page.plants.len() + self.looked_at;
        if self.filter.matches_all() { wanted.min(RUN) } else { RUN }
    }

    /// Whether the page is full, or has cost enough, before the plant with this id. If so, the next page begins there.
    fn ends_before(&mut self, id: PlantId) -> bool {
        let ends = self.page.plants.len() >= self.limit || self.looked_at >= PAGE_MAX_WORK;
        if ends {
            self.page.next = id.previous();
        }
        ends
    }

    /// Adds a plant that the filter matches; `None` is a deleted plant. Returns false when the page ends before it.
    fn takes(&mut self, id: PlantId, record: Option<&[u8]>) -> anyhow::Result<bool> {
        let Some(record) = record else {
            self.looked_at += 1;
            return Ok(true);
        };
        if self.ends_before(id) {
            return Ok(false);
        }
        self.looked_at += 1;
        let record = PlantRecord::decode(record)
            .with_context(|| format!("the record of plant {id} is damaged"))?;
        if self.filter.matches(record.name, record.tag) {
            self.page.plants.push(record.to_stored_plant(id)?);
        }
        Ok(true)
    }
}
