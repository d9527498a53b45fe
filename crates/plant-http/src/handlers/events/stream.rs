//! Events as a stream of Server-Sent Events (HTML Standard, section 9.2).
//!
//! A stream has no queue: the next page is read when the socket has taken the last one. A page is sent in parts, so that a client
//! that does not read costs the memory of one part.

use std::mem;
use std::ops::RangeInclusive;

use actix_http::{ConnectionType, header};
use actix_web::web::{Bytes, Data};
use actix_web::{Error, HttpResponse, HttpResponseBuilder};
use futures_util::stream;
use plant_store::{EventCursor, EventPage, EventsAfter};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::errors::Failure;
use crate::extract::event_request::EVENT_STREAM;
use crate::handlers::events::event_text::encode;
use crate::handlers::events::follower::{Follower, Waited};
use crate::handlers::events::followers::Followers;
use crate::limits::{EVENTS_HEARTBEAT, PAGE_MAX_EVENTS};
use crate::server::deadlines::ANSWER_IDLE_DEADLINE;

/// How long a client waits before it connects again, in milliseconds: random, so that the clients of a server that restarts
/// do not come all at once.
const RETRY_MS: RangeInclusive<u64> = 1000..=5000;

/// The most events in a part: about 40 kB.
const PART_EVENTS: usize = 256;

/// The most events with their plants in a part: at most 80 kB.
const PART_EVENTS_WITH_PLANTS: usize = 32;

/// The answer with a stream. `knows_chunks` is false for HTTP/1.0.
pub(super) async fn event_stream(
    follower: Follower,
    after: EventsAfter,
    followers: Data<Followers>,
    knows_chunks: bool,
) -> Result<HttpResponse, Failure> {
    let page = follower.repository.events(after, PAGE_MAX_EVENTS).await?;
    let body = EventBody::new(follower, followers, after, page)?;
    let parts = stream::try_unfold(body, EventBody::part);
    let mut response = stream_head().content_type(EVENT_STREAM).streaming(parts);
    if !knows_chunks {
        // The body ends with the connection (RFC 9112, section 6.3). A client that loses the connection notices nothing, and
        // goes on behind the last event just the same.
        let head = response.head_mut();
        head.no_chunking(true);
        head.set_connection_type(ConnectionType::Close);
    }
    Ok(response)
}

/// The head of every answer with a stream.
pub(super) fn stream_head() -> HttpResponseBuilder {
    let mut head = HttpResponse::Ok();
    head.insert_header((header::CACHE_CONTROL, "no-cache, no-transform"))
        // nginx would wait until its buffer is full.
        .insert_header(("x-accel-buffering", "no"))
        .insert_header((header::VARY, "accept"));
    head
}

/// The body of a stream of Server-Sent Events.
struct EventBody {
    follower: Follower,
    followers: Data<Followers>,
    _place: OwnedSemaphorePermit,
    /// Up to where events were sent.
    next: EventCursor,
    /// What was read and is not sent yet. The first page was read before the answer began.
    page: Option<EventPage>,
    /// Text before the first part.
    preamble: String,
    pause_until: Instant,
    has_ended: bool,
}

impl EventBody {
    /// A stream that begins with a page, which was read after a position.
    fn new(
        follower: Follower,
        followers: Data<Followers>,
        after: EventsAfter,
        page: EventPage,
    ) -> Result<Self, Failure> {
        // The cursor to go on from, if the client loses the connection before the first event.
        let begin = match (after, page.events.first()) {
            (EventsAfter::Cursor(cursor), _) => Some(cursor),
            (EventsAfter::Oldest, None) => Some(page.next),
            (EventsAfter::Oldest, Some(_)) => None,
        };
        let retry = format!("retry: {}\n", fastrand::u64(RETRY_MS));
        Ok(Self {
            follower,
            _place: followers.join()?,
            followers,
            next: page.next,
            page: Some(page),
            preamble: retry + &begin.map_or_else(|| "\n".to_owned(), bookmark),
            pause_until: Instant::now(),
            has_ended: false,
        })
    }

    /// The next part of the body. A failure ends the body: when the client connects again, the answer says why.
    async fn part(mut self) -> Result<Option<(Bytes, Self)>, Error> {
        if self.has_ended {
            return Ok(None);
        }
        // Other requests of this thread get a turn before each part.
        yield_now().await;
        match self.next_part().await {
            Ok(part) => Ok(Some((part, self))),
            Err(failure) => {
                self.followers.note_dropped(failure.number());
                if let Some(cause) = failure.cause() {
                    self.follower.context.log_error(&cause.to_string());
                }
                Ok(None)
            }
        }
    }

    /// The next events, or a bookmark after a while without any, and at the end.
    async fn next_part(&mut self) -> Result<Bytes, Failure> {
        if let Some(page) = self.page.take() {
            self.follower.context.check_still_valid()?;
            return self.part_of(page).await;
        }
        sleep_until(self.pause_until).await;
        self.follower.context.check_still_valid()?;
        let silence = Instant::now() + EVENTS_HEARTBEAT;
        match self.follower.wait(self.next, PAGE_MAX_EVENTS, silence).await? {
            Waited::Events(page) => self.part_of(page).await,
            Waited::Silence => Ok(bookmark(self.next).into()),
            Waited::End => {
                self.has_ended = true;
                Ok(bookmark(self.next).into())
            }
        }
    }

    /// The text of the first events of a page. Keeps the others for the next part.
    async fn part_of(&mut self, page: EventPage) -> Result<Bytes, Failure> {
        self.pause_until = Instant::now() + self.followers.pause();
        let EventPage { mut events, mut next } = page;
        let most = if self.follower.with_plants { PART_EVENTS_WITH_PLANTS } else { PART_EVENTS };
        let rest = events.split_off(events.len().min(most));
        if !rest.is_empty() {
            let end = mem::replace(&mut next, events[most - 1].cursor);
            self.page = Some(EventPage { events: rest, next: end });
        }
        self.next = next;
        let room = self.follower.room_for(events.len(), ANSWER_IDLE_DEADLINE).await?;
        let mut text = mem::take(&mut self.preamble);
        if self.follower.with_plants {
            for event in self.follower.shown(events).await? {
                text.push_str(&encode(&event)?);
            }
        } else {
            self.followers.newest_text.push_page(&mut text, &events)?;
        }
        Ok(room.hold(text.into_bytes()))
    }
}

/// The connection ends, or the body has ended.
impl Drop for EventBody {
    fn drop(&mut self) {
        if self.follower.client.has_stalled() {
            self.followers.note_stalled();
        }
    }
}

/// An `id` without data: the client notes the cursor, and dispatches no event.
fn bookmark(cursor: EventCursor) -> String {
    format!("id: {cursor}\n\n")
}
