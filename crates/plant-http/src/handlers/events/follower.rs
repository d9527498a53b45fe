//! A client that follows events: a cursor over the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use actix_web::web::Data;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use plant_domain::{Plant, PlantId};
use plant_store::{Author, Event, EventCursor, EventKind, EventPage, StoredPlant};
use serde::{Serialize, Serializer};
use tokio::time::{Instant, sleep_until};

use crate::answers::{AnswerMemory, Room};
use crate::errors::Failure;
use crate::extract::client_presence::ClientPresence;
use crate::handlers::Repository;
use crate::limits::{EVENT_ANSWER_MAX_BYTES, PLANT_ANSWER_MAX_BYTES};
use crate::middleware::context::RequestContext;
use crate::server::drain::Draining;

/// How often the token of a follower is checked.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How many plants of a page are read at the same time: a store may read many at once.
const READS_AT_ONCE: usize = 256;

type Plants = BTreeMap<PlantId, StoredPlant>;

/// What a follower needs for its whole time.
pub(super) struct Follower {
    pub(super) repository: Repository,
    pub(super) context: Rc<RequestContext>,
    pub(super) draining: Data<Draining>,
    pub(super) client: ClientPresence,
    pub(super) with_plants: bool,
    pub(super) memory: Data<AnswerMemory>,
}

/// What a wait has come to.
pub(super) enum Waited {
    Events(EventPage),
    /// No event came in time.
    Silence,
    /// The server drains, or the client has left.
    End,
}

impl Follower {
    /// Waits for events after a cursor, up to a time. Fails when the token has ended.
    pub(super) async fn wait(
        &self,
        after: EventCursor,
        limit: usize,
        end: Instant,
    ) -> Result<Waited, Failure> {
        let mut news = pin!(self.repository.next_events(after, limit));
        let mut over = pin!(async {
            tokio::select! {
                () = self.draining.closed() => {}
                () = self.client.left() => {}
            }
        });
        loop {
            let check = end.min(Instant::now() + TOKEN_CHECK_INTERVAL);
            tokio::select! {
                biased;
                // First, because a follower that is behind always has events to read.
                () = &mut over => return Ok(Waited::End),
                page = &mut news => return Ok(Waited::Events(page?)),
                () = sleep_until(check) => self.context.check_still_valid()?,
            }
            if check == end {
                return Ok(Waited::Silence);
            }
        }
    }

    /// Room for an answer with this many events.
    pub(super) async fn room_for(
        &self,
        events: usize,
        patience: Duration,
    ) -> Result<Room, Failure> {
        let plant_max_bytes = if self.with_plants { PLANT_ANSWER_MAX_BYTES } else { 0 };
        self.memory.room_for(events, EVENT_ANSWER_MAX_BYTES + plant_max_bytes, patience).await
    }

    /// The events as clients see them.
    pub(super) async fn shown(&self, events: Vec<Event>) -> Result<Vec<ShownEvent>, Failure> {
        let plants = if self.with_plants { self.plants_of(&events).await? } else { Plants::new() };
        let shown = |event: Event| {
            let plant = plants.get(&event.id).map(|stored| stored.plant.clone());
            ShownEvent { plant, ..event.into() }
        };
        Ok(events.into_iter().map(shown).collect())
    }

    /// The plants of these events, as they are now.
    async fn plants_of(&self, events: &[Event]) -> Result<Plants, Failure> {
        let ids: BTreeSet<PlantId> = events.iter().map(|event| event.id).collect();
        let reads = ids.into_iter().map(|id| self.repository.get(id));
        let found: Vec<Option<StoredPlant>> =
            stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
        let plants: Plants =
            found.into_iter().flatten().map(|stored| (stored.id, stored)).collect();
        if events.iter().any(|event| has_changed(event, plants.get(&event.id))) {
            // The events are durable, but a newer state of a plant may not be. If it were undone, no event would say so.
            self.repository.wait_until_durable().await?;
        }
        Ok(plants)
    }
}

/// Whether a plant has changed since an event.
fn has_changed(event: &Event, stored: Option<&StoredPlant>) -> bool {
    match stored {
        Some(stored) => stored.revision != event.revision(),
        None => event.kind != EventKind::Deleted,
    }
}

#[derive(Serialize)]
pub(super) struct ShownEvent {
    #[serde(serialize_with = "as_text")]
    pub(super) cursor: EventCursor,
    kind: EventKind,
    id: PlantId,
    #[serde(serialize_with = "as_time")]
    at: SystemTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Author>,
    /// The plant as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    plant: Option<Plant>,
}

impl From<Event> for ShownEvent {
    /// The event without its plant.
    fn from(event: Event) -> Self {
        let Event { cursor, kind, id, at, by } = event;
        Self { cursor, kind, id, at, by, plant: None }
    }
}

pub(crate) fn as_text<S: Serializer>(
    value: &impl Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// RFC 3339 in UTC, with milliseconds.
pub(crate) fn as_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let time = Timestamp::try_from(*time).unwrap_or(Timestamp::UNIX_EPOCH);
    serializer.collect_str(&format_args!("{time:.3}"))
}
