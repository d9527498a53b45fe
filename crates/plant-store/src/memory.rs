//! A repository in memory, for tests of programs that embed one.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use plant_domain::{NewPlant, NewPlantRef, PlantId};
use tokio::sync::watch;

use crate::event::{from_millis, to_millis};
use crate::write::{Decision, KeptPlant, Write, imported};
use crate::{
    DEFAULT_KEEP_EVENTS, Event, EventCursor, EventPage, EventsAfter, Imported, OnConflict, Page,
    PageRequest, PlantRepository, Revision, StoreError, StoreFailure, StoredPlant, TagCount,
    TagPage, TagPageRequest,
};

/// The part of every cursor that names the log.
const LOG: u64 = 1;

/// Keeps plants in memory only, for tests: the plants are lost when the last repository that shares them is
/// dropped. Except for durability, it fulfills the contract of [`PlantRepository`].
#[derive(Debug, Default)]
pub struct MemoryRepository {
    kept: Arc<Mutex<Kept>>,
    /// The number of the last event, for those who wait for the next one.
    last: Arc<watch::Sender<u64>>,
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    plants: BTreeMap<PlantId, KeptPlant>,
    /// The newest [`DEFAULT_KEEP_EVENTS`] events.
    events: VecDeque<Event>,
    /// The number of the last event.
    last: u64,
}

impl MemoryRepository {
    /// Another, open repository of the same plants: what a program finds after a restart.
    #[must_use]
    pub fn reopened(&self) -> Self {
        let (kept, last) = (Arc::clone(&self.kept), Arc::clone(&self.last));
        Self { kept, last, is_closed: AtomicBool::new(false) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::SeqCst) { Err(StoreError::Closed) } else { Ok(()) }
    }
}

#[async_trait]
impl PlantRepository for MemoryRepository {
    async fn write(&self, write: Write) -> Result<Decision, StoreError> {
        let mut kept = self.kept();
        self.check_open()?;
        let id = write.id();
        let revision = Revision::from(kept.last + 1);
        let decision = write.decide(kept.plants.get(&id).cloned(), revision)?;
        if let Some(kind) = decision.event {
            match decision.after() {
                Some(after) => drop(kept.plants.insert(id, after.clone())),
                None => drop(kept.plants.remove(&id)),
            }
            kept.last += 1;
            // In whole milliseconds, as the contract says.
            let at = from_millis(to_millis(SystemTime::now()));
            let cursor = EventCursor { revision, log: LOG };
            kept.events.push_back(Event { cursor, kind, id, at });
            if kept.events.len() as u64 > DEFAULT_KEEP_EVENTS {
                kept.events.pop_front();
            }
            self.last.send_replace(kept.last);
        }
        Ok(decision)
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
    ) -> Result<Vec<Imported>, StoreError> {
        let mut all_imported = Vec::with_capacity(new_plants.len());
        for new_plant in new_plants {
            let decided = self.write(Write::of_import(new_plant, on_conflict)).await;
            all_imported.push(imported(decided, on_conflict)?);
        }
        Ok(all_imported)
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        Ok(self.kept().plants.get(&id).map(|kept| kept.stored.clone()))
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        let mut page = Page::default();
        let Some(first) = request.first_id() else { return Ok(page) };
        for (id, kept) in self.kept().plants.range(first..) {
            if page.len() == request.limit {
                page.next = id.previous();
                break;
            }
            let StoredPlant { plant, revision, .. } = &kept.stored;
            let (name, tag) = plant.members();
            if request.filter.matches(name, tag) {
                page.push(NewPlantRef { id: *id, name, tag }, *revision);
            }
        }
        Ok(page)
    }

    async fn count(&self, tag: Option<&str>) -> Result<u64, StoreError> {
        let kept = self.kept();
        let has_tag = |kept: &&KeptPlant| tag.is_none() || kept.stored.plant.tag() == tag;
        Ok(kept.plants.values().filter(has_tag).count() as u64)
    }

    async fn tags(&self, request: TagPageRequest) -> Result<TagPage, StoreError> {
        let mut counts = BTreeMap::<String, u64>::new();
        for kept in self.kept().plants.values() {
            if let Some(tag) = kept.stored.plant.tag().filter(|tag| request.selects(tag)) {
                *counts.entry(tag.to_owned()).or_default() += 1;
            }
        }
        let is_last = counts.len() <= request.limit;
        let counts = counts.into_iter().take(request.limit);
        let tags: Vec<_> = counts.map(|(tag, plants)| TagCount { tag, plants }).collect();
        let next = tags.last().filter(|_| !is_last).map(|last| last.tag.clone());
        Ok(TagPage { tags, next })
    }

    async fn events(&self, after: EventsAfter, limit: usize) -> Result<EventPage, StoreError> {
        let kept = self.kept();
        let forgotten = kept.last - kept.events.len() as u64;
        let after = match after {
            EventsAfter::Oldest => EventCursor { revision: forgotten.into(), log: LOG },
            EventsAfter::Cursor(cursor) => cursor,
        };
        let is_there = (forgotten..=kept.last).contains(&after.revision.get());
        if after.log != LOG || !is_there {
            return Err(StoreError::EventsGone);
        }
        let later = kept.events.iter().filter(|event| event.revision() > after.revision);
        let events: Vec<Event> = later.take(limit).copied().collect();
        let next = events.last().map_or(after, |event| event.cursor);
        Ok(EventPage { events, next })
    }

    async fn newest_event(&self) -> Result<EventCursor, StoreError> {
        Ok(EventCursor { revision: self.kept().last.into(), log: LOG })
    }

    async fn next_events(&self, after: EventCursor, limit: usize) -> Result<EventPage, StoreError> {
        let mut page = self.events(EventsAfter::Cursor(after), limit).await?;
        while page.events.is_empty() {
            // The sender is dropped only with the plants.
            let _ = self.last.subscribe().wait_for(|last| *last > after.revision.get()).await;
            page = self.events(EventsAfter::Cursor(after), limit).await?;
        }
        Ok(page)
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        self.check_open()
    }

    async fn failed(&self) -> StoreFailure {
        pending().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        self.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
