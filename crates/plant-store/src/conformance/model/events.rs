//! Compares the events.

use std::time::SystemTime;

use super::super::store_under_test::DEADLINE;
use super::{Change, ExpectedChange, KeptEvents, Model};
use crate::{Event, EventCursor, EventPage, EventsAfter, PlantRepository, Revision, StoreError};

impl Model {
    /// Compares the new events with the last operation. Takes the revisions of an import from the events.
    pub(super) async fn check_new_events(&mut self, repository: &dyn PlantRepository) {
        let begun = SystemTime::now();
        let new = repository.events(self.after(self.log()), 1_000).await.expect("reads").events;
        assert_eq!(new.len(), self.new_changes.len(), "{new:?}");
        for (event, expected) in new.into_iter().zip(self.new_changes.drain(..)) {
            let ExpectedChange { kind, id, revision, by, plant } = expected;
            assert_eq!((event.kind, event.id, &event.by), (kind, id, &by));
            assert!(revision.is_none_or(|revision| revision == event.revision()), "{event:?}");
            let last = self.changes.last().map(|last| last.event.revision());
            assert!(last.is_none_or(|last| last < event.revision()), "{event:?}");
            let age = begun.duration_since(event.at).unwrap_or_default();
            assert!(age < DEADLINE, "the time of {event:?} is wrong");
            self.plants.set_revision(id, event.revision());
            self.changes.push(Change { event, plant });
        }
    }

    /// Takes note that the log of a restored store begins anew: no earlier cursor may be accepted.
    pub(super) async fn begin_log(&mut self, repository: &dyn PlantRepository) {
        let lost = repository.events(self.after(self.log()), 1).await;
        assert!(matches!(lost, Err(StoreError::EventsGone)), "{lost:?}");
        self.before_log = self.changes.len();
        self.start = Some(repository.newest_event().await.expect("reads"));
    }

    /// The changes whose events are in the log, unless they are forgotten.
    fn log(&self) -> &[Change] {
        &self.changes[self.before_log..]
    }

    /// The position after these changes, which are the first ones of the log.
    fn after(&self, changes: &[Change]) -> EventsAfter {
        let last = changes.last().map(|change| change.event.cursor).or(self.start);
        EventsAfter::Cursor(last.expect("the store was opened"))
    }

    /// Whether the change with this index is kept for sure.
    pub(super) const fn is_kept(&self, change: usize, kept: KeptEvents) -> bool {
        change >= self.changes.len().saturating_sub(kept.at_least())
    }

    /// Checks that the newest events are kept, and that older ones are forgotten if they must be.
    pub(super) async fn check_events(&self, repository: &dyn PlantRepository, kept: KeptEvents) {
        let all: Vec<Event> = self.log().iter().map(|change| change.event.clone()).collect();
        let forgotten = all.len().saturating_sub(kept.at_least());
        let (forgotten, newest_events) = all.split_at(forgotten);
        let mut next = self.after(&self.log()[..forgotten.len()]);
        for newest in newest_events.chunks(4) {
            let page = repository.events(next, 4).await.expect("they are kept");
            assert_eq!(page.events, newest);
            next = EventsAfter::Cursor(page.next);
        }
        let end = repository.events(next, 4).await.expect("they are kept");
        let newest = repository.newest_event().await.expect("reads");
        assert_eq!(end, EventPage { events: Vec::new(), next: newest });

        let oldest = repository.events(EventsAfter::Oldest, all.len() + 1).await;
        let oldest = oldest.expect("the oldest are kept").events;
        match kept {
            KeptEvents::Exactly(_) => assert_eq!(oldest, newest_events),
            KeptEvents::AtLeast(_) => assert!(oldest.ends_with(newest_events), "{oldest:?}"),
        }
        if let Some(last_forgotten) = forgotten.len().checked_sub(1) {
            let before = self.after(&self.log()[..last_forgotten]);
            match (repository.events(before, 1).await, kept) {
                (Err(StoreError::EventsGone), _) => {}
                (Ok(page), KeptEvents::AtLeast(_)) => {
                    assert_eq!(page.events, all[last_forgotten..=last_forgotten]);
                }
                (shown, _) => panic!("{shown:?} should be forgotten"),
            }
        }
        let oldest = forgotten.last().map_or(newest, |event| event.cursor);
        for foreign in [
            EventCursor { log: oldest.log ^ 1, ..oldest },
            EventCursor { log: newest.log ^ 1, ..newest },
            EventCursor { revision: Revision::from(newest.revision.get() + 1), ..newest },
            EventCursor { revision: Revision::from(u64::MAX), ..newest },
        ] {
            let page = repository.events(EventsAfter::Cursor(foreign), 1).await;
            assert!(matches!(page, Err(StoreError::EventsGone)), "{foreign}: {page:?}");
        }
    }
}
