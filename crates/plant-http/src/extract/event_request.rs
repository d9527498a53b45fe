//! What a request for events asks for.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use actix_http::Version;
use actix_http::header::Quality;
use actix_web::HttpRequest;
use plant_store::{EventCursor, NotACursor};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::head::FromHead;
use crate::extract::media_type::{JSON, quality};
use crate::extract::query::{query, read_limit, wrong};
use crate::limits::{EVENTS_WAIT_MAX, PAGE_DEFAULT_EVENTS, PAGE_MAX_EVENTS};

/// The header in which an `EventSource` sends back the last `id` (HTML Standard, section 9.2.4).
const LAST_EVENT_ID: &str = "last-event-id";

/// The media type of Server-Sent Events (HTML Standard, section 9.2).
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Which events, and how.
pub(crate) struct EventRequest {
    pub(crate) query: EventQuery,
    /// Where the events begin; without a start, with the oldest event that is kept.
    pub(crate) start: Option<EventStart>,
    /// Whether the client asks for Server-Sent Events.
    pub(crate) is_stream: bool,
    /// Whether the client knows chunks, which HTTP/1.0 lacks.
    pub(crate) knows_chunks: bool,
}

/// The parameters, apart from `Last-Event-ID`.
pub(crate) struct EventQuery {
    after: Option<EventStart>,
    /// The most events of a page.
    pub(crate) limit: usize,
    /// How long to wait for an event when there is none. A stream has no end.
    pub(crate) wait: Duration,
    /// Whether each event shows the plant as it is now.
    pub(crate) with_plants: bool,
    /// The parameters that the address of the next page repeats, each with `&` before it.
    repeated: String,
}

/// Where events begin: the parameter `after`. As text it is `now` or a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStart {
    /// With the next event.
    Now,
    /// With the first event after a cursor.
    After(EventCursor),
}

impl FromStr for EventStart {
    type Err = NotAnEventStart;

    fn from_str(text: &str) -> Result<Self, NotAnEventStart> {
        if text == "now" { Ok(Self::Now) } else { Ok(Self::After(text.parse()?)) }
    }
}

impl fmt::Display for EventStart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => formatter.write_str("now"),
            Self::After(cursor) => cursor.fmt(formatter),
        }
    }
}

/// The text is not an [`EventStart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be now or a cursor: {0}")]
pub struct NotAnEventStart(#[from] NotACursor);

impl EventQuery {
    fn parse(text: &str) -> Result<Self, Failure> {
        let [after, limit, wait, plants] = query(text, ["after", "limit", "wait", "plants"])?;
        let mut repeated = String::new();
        for (name, value) in [("limit", &limit), ("wait", &wait), ("plants", &plants)] {
            if let Some(value) = value {
                repeated.push_str(&format!("&{name}={value}"));
            }
        }
        Ok(Self {
            after: after.map(|after| read_start(&after)).transpose()?,
            limit: read_limit(limit, PAGE_DEFAULT_EVENTS, PAGE_MAX_EVENTS)?,
            wait: wait.map_or(Ok(Duration::ZERO), |wait| read_wait(&wait))?,
            with_plants: plants.map_or(Ok(false), |plants| read_plants(&plants))?,
            repeated,
        })
    }

    /// The query of the next page.
    pub(crate) fn next(&self, after: EventCursor) -> String {
        format!("after={after}{}", self.repeated)
    }
}

impl FromHead for EventRequest {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        let query = EventQuery::parse(request.query_string())?;
        let last_event = last_event_id(request)?.map(EventStart::After);
        Ok(Self {
            start: last_event.or(query.after),
            query,
            is_stream: prefers_stream(request),
            knows_chunks: request.version() >= Version::HTTP_11,
        })
    }
}

/// Whether the client names the media type of streams, and does not prefer JSON.
fn prefers_stream(request: &HttpRequest) -> bool {
    let of_stream = quality(request, &[EVENT_STREAM]);
    of_stream > Quality::ZERO && of_stream >= quality(request, &[JSON, "application/*", "*/*"])
}

fn last_event_id(request: &HttpRequest) -> Result<Option<EventCursor>, Failure> {
    let mut sent = request.headers().get_all(LAST_EVENT_ID);
    let (Some(last), more) = (sent.next(), sent.next()) else { return Ok(None) };
    let wrong = |message: String| Failure::new(ErrorNumber::WrongHeader, message);
    if more.is_some() {
        return Err(wrong("Last-Event-ID appears more than once; send it once".to_owned()));
    }
    if last.is_empty() {
        // The last event id of an `EventSource` that has none (HTML Standard, section 9.2.3).
        return Ok(None);
    }
    let cursor = last.to_str().unwrap_or_default().parse();
    cursor.map(Some).map_err(|cause: NotACursor| wrong(format!("Last-Event-ID is wrong: {cause}")))
}

fn read_start(text: &str) -> Result<EventStart, Failure> {
    text.parse().map_err(|cause: NotAnEventStart| wrong(format!("after is wrong: {cause}")))
}

fn read_wait(text: &str) -> Result<Duration, Failure> {
    let most = EVENTS_WAIT_MAX.as_secs();
    match text.parse() {
        Ok(seconds @ 0..) if seconds <= most && seconds.to_string() == text => {
            Ok(Duration::from_secs(seconds))
        }
        _ => Err(wrong(format!("wait must be an integer from 0 to {most}, in seconds"))),
    }
}

fn read_plants(text: &str) -> Result<bool, Failure> {
    text.parse().map_err(|_| wrong("plants must be true or false"))
}
