//! A client that follows events: a cursor over the log.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use actix_web::web::Data;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use plant_domain::{Plant, PlantId};
use plant_store::{Event, EventCursor, EventKind, EventPage, StoredPlant};
use serde::{Serialize, Serializer};
use tokio::time::{Instant, sleep_until};

use crate::errors::Failure;
use crate::extract::client_presence::ClientPresence;
use crate::handlers::Repository;
use crate::middleware::context::RequestContext;
use crate::server::drain::Draining;

/// How often the token of a follower is checked.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What a follower needs for its whole time.
pub(super) struct Follower {
    pub(super) repository: Repository,
    pub(super) context: Rc<RequestContext>,
    pub(super) draining: Data<Draining>,
    pub(super) client: ClientPresence,
    pub(super) with_plants: bool,
}

/// What a wait has come to.
pub(super) enum Waited {
    Events(EventPage),
    /// No event came in time.
    Silence,
    /// The server ends, or the client has left.
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
                page = &mut news => return Ok(Waited::Events(page?)),
                () = &mut over => return Ok(Waited::End),
                () = sleep_until(check) => self.context.check_still_valid()?,
            }
            if check == end {
                return Ok(Waited::Silence);
            }
        }
    }

    /// The events as clients see them.
    pub(super) async fn shown(&self, events: Vec<Event>) -> Result<Vec<ShownEvent>, Failure> {
        let plants = if self.with_plants {
            // At the same time, because a store may read many plants at once.
            let plants = events.iter().map(|event| self.repository.get(event.id));
            let plants = try_join_all(plants).await?;
            if events.iter().zip(&plants).any(|(event, stored)| has_changed(event, stored.as_ref()))
            {
                // The events last, but a later state of a plant may not: no event would tell that it was undone.
                self.repository.wait_until_lasting().await?;
            }
            plants
        } else {
            vec![None; events.len()]
        };
        let events = events.into_iter().zip(plants);
        Ok(events
            .map(|(event, stored)| ShownEvent {
                cursor: event.cursor,
                kind: event.kind,
                id: event.id,
                at: event.at,
                plant: stored.map(|stored| stored.plant),
            })
            .collect())
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
    /// The plant as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    plant: Option<Plant>,
}

fn as_text<S: Serializer>(cursor: &EventCursor, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cursor)
}

/// RFC 3339 in UTC, with milliseconds.
fn as_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let time = Timestamp::try_from(*time).unwrap_or(Timestamp::UNIX_EPOCH);
    serializer.collect_str(&format_args!("{time:.3}"))
}
