//! A client that follows events: a cursor over the log.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use actix_web::web::Data;
use plant_store::{Event, EventCursor, EventPage};
use tokio::time::{Instant, sleep_until};

use crate::answers::{AnswerMemory, Room};
use crate::errors::Failure;
use crate::handlers::Repository;
use crate::handlers::events::shown_event::{ShownEvent, shown_events};
use crate::limits::{EVENT_ANSWER_MAX_BYTES, PLANT_ANSWER_MAX_BYTES};
use crate::middleware::context::RequestContext;
use crate::server::drain::Draining;
use crate::server::http1::ClientConnection;

/// How often the token of a follower is checked.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What a follower needs for its whole time.
pub(super) struct Follower {
    pub(super) repository: Repository,
    pub(super) context: Rc<RequestContext>,
    pub(super) draining: Data<Draining>,
    pub(super) client: ClientConnection,
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

    /// The events as clients see them, with their plants as they are now.
    pub(super) async fn shown(&self, events: Vec<Event>) -> Result<Vec<ShownEvent>, Failure> {
        let repository = self.repository.get_ref().as_ref();
        Ok(shown_events(repository, events, self.with_plants, |_, _| true).await?)
    }
}
