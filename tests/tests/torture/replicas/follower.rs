//! A follower, which reads the events throughout the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plant_postgres::{PostgresConfig, PostgresRepository};
use plant_store::{EventsAfter, PlantRepository as _, Revision, StoreError};
use plantd_tests::{DEADLINE, wait_until};

use super::log::LoggedEvent;

/// The most events of one read.
const PAGE: usize = 500;

/// The pause when there is nothing new.
const PAUSE: Duration = Duration::from_millis(2);

/// The revision of the last event while it is not known.
const TO_NO_END: u64 = u64::MAX;

/// Repeatedly reads the events after the last one seen, in a thread.
pub(super) struct Follower {
    following: Option<JoinHandle<Vec<LoggedEvent>>>,
    end: Arc<AtomicU64>,
}

impl Follower {
    /// Begins with the first event.
    pub(super) fn start(url: &str, schema: &str) -> Self {
        let end = Arc::new(AtomicU64::new(TO_NO_END));
        let mut config = PostgresConfig::new(
            format!("{url}?application_name={schema}_follower").parse().expect("a URL"),
        );
        config.schema = schema.parse().expect("a name");
        // A disturbance while it opens would prove nothing about events.
        let (opened, is_open) = mpsc::channel();
        let following = thread::spawn({
            let end = Arc::clone(&end);
            move || follow(&config, &end, &opened)
        });
        is_open.recv_timeout(DEADLINE).expect("the follower opens");
        Self { following: Some(following), end }
    }

    /// Waits until it has read to the end of this log, and asserts that it has seen exactly this log.
    pub(super) fn assert_has_seen(mut self, log: &[LoggedEvent]) {
        let last = log.last().map_or(Revision::BEFORE_ALL, |event| event.revision);
        self.end.store(last.get(), Ordering::Relaxed);
        let following = self.following.take().expect("it is joined once");
        wait_until("the follower to come to the end", || following.is_finished());
        let seen = following.join().expect("the follower has not panicked");
        let first_difference = (0..seen.len().max(log.len()))
            .map(|index| (index, seen.get(index), log.get(index)))
            .find(|(_, seen, logged)| seen != logged);
        let counts = (seen.len(), log.len());
        assert_eq!(first_difference, None, "an event was missed or seen twice: {counts:?}");
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // An assertion has failed: the thread must not run forever.
        self.end.store(0, Ordering::Relaxed);
    }
}

fn follow(config: &PostgresConfig, end: &AtomicU64, opened: &Sender<()>) -> Vec<LoggedEvent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(async {
        let repository = PostgresRepository::open(config).await.expect("it opens");
        opened.send(()).expect("somebody waits for that");
        let mut seen: Vec<LoggedEvent> = Vec::new();
        let mut after = EventsAfter::Forgotten;
        loop {
            let last = seen.last().map_or(Revision::BEFORE_ALL, |event| event.revision);
            if last.get() >= end.load(Ordering::Relaxed) {
                return seen;
            }
            // While PostgreSQL is unreachable, the follower tries again.
            let page = match repository.events(after, PAGE).await {
                Ok(page) => page,
                Err(StoreError::EventsGone) => panic!("events are gone"),
                Err(_) => continue,
            };
            if page.events.is_empty() {
                tokio::time::sleep(PAUSE).await;
            }
            after = EventsAfter::Cursor(page.next);
            let logged = page.events.into_iter().map(|event| LoggedEvent {
                revision: event.revision(),
                kind: event.kind,
                id: event.id,
            });
            seen.extend(logged);
        }
    })
}
