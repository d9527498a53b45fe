//! Events: as a page, as a page that waits for the next event (long poll), and as a stream of Server-Sent Events (HTML
//! Standard, section 9.2).
//!
//! A follower is a cursor over the log, and has no queue: the next page is read when the socket has taken the last one.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use actix_http::header;
use actix_http::{ConnectionType, Method};
use actix_web::HttpResponse;
use actix_web::web::{Bytes, Data, ReqData};
use futures_util::future::try_join_all;
use futures_util::stream;
use jiff::Timestamp;
use plant_domain::{Plant, PlantId};
use plant_store::{Event, EventCursor, EventKind, EventPage, EventsAfter, StoredPlant};
use serde::{Serialize, Serializer};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::errors::Failure;
use crate::extract::client_presence::ClientPresence;
use crate::extract::event_request::{EVENT_STREAM, EventRequest, EventStart};
use crate::extract::head::Head;
use crate::handlers::Repository;
use crate::handlers::followers::Followers;
use crate::limits::{EVENTS_HEARTBEAT, PAGE_MAX_EVENTS};
use crate::middleware::context::RequestContext;
use crate::server::drain::Draining;

/// The header with the cursor from which to follow what happens after an answer.
pub const EVENTS_AFTER_HEADER: &str = "x-events-after";

/// How often the token of a follower is checked.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client waits before it connects again, in milliseconds: random, so that the clients of a server that restarts
/// do not come all at once.
const RETRY_MS: std::ops::RangeInclusive<u64> = 1000..=5000;

/// `GET /events`.
pub(crate) async fn events(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    followers: Data<Followers>,
    draining: Data<Draining>,
    Head(request): Head<EventRequest>,
    Head(client): Head<ClientPresence>,
    method: Method,
) -> Result<HttpResponse, Failure> {
    let after = match request.start {
        None => EventsAfter::Forgotten,
        Some(EventStart::Now) => EventsAfter::Cursor(repository.newest_event().await?),
        Some(EventStart::After(cursor)) => EventsAfter::Cursor(cursor),
    };
    let feed = Feed {
        repository,
        context: context.into_inner(),
        draining,
        client,
        with_plants: request.with_plants,
    };
    if request.is_stream {
        let mut response = feed.stream(after, followers, &method).await?;
        if !request.knows_chunks {
            // The body ends with the connection (RFC 9112, section 6.3). A client that loses the connection notices nothing,
            // and goes on behind the last event just the same.
            let head = response.head_mut();
            head.no_chunking(true);
            head.set_connection_type(ConnectionType::Close);
        }
        return Ok(response);
    }
    let mut page = feed.repository.events(after, request.limit).await?;
    if page.events.is_empty() && !request.wait.is_zero() && method == Method::GET {
        let _place = followers.join()?;
        let end = Instant::now() + request.wait;
        if let Waited::Events(news) = feed.wait(page.next, request.limit, end).await? {
            page = news;
        }
    }
    let (events, next) = (page.events, request.next(page.next));
    let link = format!("<{}?{next}>; rel=\"next\"", feed.context.events_path());
    Ok(HttpResponse::Ok()
        .insert_header((header::LINK, link))
        .insert_header((header::VARY, "accept"))
        .json(feed.shown(events).await?))
}

/// What a follower needs for its whole time.
struct Feed {
    repository: Repository,
    context: Rc<RequestContext>,
    draining: Data<Draining>,
    client: ClientPresence,
    with_plants: bool,
}

/// What a wait has come to.
enum Waited {
    Events(EventPage),
    /// No event came in time.
    Silence,
    /// The server ends, or the client has left.
    End,
}

impl Feed {
    /// Waits for events after a cursor, up to a time. Fails when the token has ended.
    async fn wait(
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
    async fn shown(&self, events: Vec<Event>) -> Result<Vec<ShownEvent>, Failure> {
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

    async fn stream(
        self,
        after: EventsAfter,
        followers: Data<Followers>,
        method: &Method,
    ) -> Result<HttpResponse, Failure> {
        let place = followers.join()?;
        let page = self.repository.events(after, PAGE_MAX_EVENTS).await?;
        let mut response = HttpResponse::Ok();
        response
            .content_type(EVENT_STREAM)
            .insert_header((header::CACHE_CONTROL, "no-cache, no-transform"))
            // nginx would wait until its buffer is full.
            .insert_header(("x-accel-buffering", "no"))
            .insert_header((header::VARY, "accept"));
        if method != Method::GET {
            // An answer to HEAD has no body: nothing is read for it.
            return Ok(response.streaming(stream::empty::<Result<Bytes, actix_web::Error>>()));
        }
        // The place to go on, if the client loses the connection before the first event.
        let begin = match (after, page.events.first()) {
            (EventsAfter::Cursor(cursor), _) => Some(cursor),
            (EventsAfter::Forgotten, None) => Some(page.next),
            (EventsAfter::Forgotten, Some(_)) => None,
        };
        let retry = format!("retry: {}\n", fastrand::u64(RETRY_MS));
        let head = retry + &begin.map_or_else(|| "\n".to_owned(), bookmark);
        let stream = EventStream {
            feed: self,
            followers,
            _place: place,
            next: page.next,
            page: Some(page),
            head,
            pause_until: Instant::now(),
            has_ended: false,
        };
        Ok(response.streaming(stream::try_unfold(stream, EventStream::part)))
    }
}

/// A stream of Server-Sent Events.
struct EventStream {
    feed: Feed,
    followers: Data<Followers>,
    _place: OwnedSemaphorePermit,
    /// Up to where events were sent.
    next: EventCursor,
    /// The first page, which was read before the answer began.
    page: Option<EventPage>,
    /// Text before the next part.
    head: String,
    pause_until: Instant,
    has_ended: bool,
}

impl EventStream {
    /// The next part of the body. A failure ends the body: when the client connects again, the answer says why.
    async fn part(mut self) -> Result<Option<(Bytes, Self)>, actix_web::Error> {
        if self.has_ended {
            return Ok(None);
        }
        // Other requests of this thread get a turn before each part.
        yield_now().await;
        match self.next_part().await {
            Ok(part) => Ok(Some((part.into(), self))),
            Err(_) => Ok(None),
        }
    }

    /// The next events, or a bookmark after a while without any, and at the end.
    async fn next_part(&mut self) -> Result<String, Failure> {
        if let Some(page) = self.page.take() {
            return self.text_of(page).await;
        }
        sleep_until(self.pause_until).await;
        self.feed.context.check_still_valid()?;
        let silence = Instant::now() + EVENTS_HEARTBEAT;
        match self.feed.wait(self.next, PAGE_MAX_EVENTS, silence).await? {
            Waited::Events(page) => self.text_of(page).await,
            Waited::Silence => Ok(bookmark(self.next)),
            Waited::End => {
                self.has_ended = true;
                Ok(bookmark(self.next))
            }
        }
    }

    async fn text_of(&mut self, page: EventPage) -> Result<String, Failure> {
        self.pause_until = Instant::now() + self.followers.pause();
        self.next = page.next;
        let mut text = std::mem::take(&mut self.head);
        for event in self.feed.shown(page.events).await? {
            text.push_str(&format!("id: {}\ndata: ", event.cursor));
            text.push_str(&serde_json::to_string(&event).map_err(Failure::internal)?);
            text.push_str("\n\n");
        }
        Ok(text)
    }
}

/// Whether a plant has changed since an event.
fn has_changed(event: &Event, stored: Option<&StoredPlant>) -> bool {
    match stored {
        Some(stored) => stored.revision != event.revision(),
        None => event.kind != EventKind::Deleted,
    }
}

/// An `id` without data: the client notes the cursor, and dispatches no event.
fn bookmark(cursor: EventCursor) -> String {
    format!("id: {cursor}\n\n")
}

#[derive(Serialize)]
struct ShownEvent {
    #[serde(serialize_with = "as_text")]
    cursor: EventCursor,
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
