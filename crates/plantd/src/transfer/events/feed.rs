//! Events, read page by page and printed.
//!
//! A page is read whole, then printed, and then the cursor moves. So an answer that breaks off prints nothing, and the
//! next request begins where the output ends.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use plant_http::limits::PAGE_MAX_EVENTS;
use plant_http::transfer::EventStart;
use plant_store::EventCursor;
use serde::Deserialize;
use serde_json::value::RawValue;
use ureq::Body;
use ureq::http::{HeaderMap, Method, Response};

use crate::client::backoff::retry_after;
use crate::client::remote::{self, Remote};
use crate::exit::Stop;
use crate::print::CANNOT_PRINT;
use crate::transfer::output::Output;

/// The longest pause before a retry, even if the server asks for a longer one.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The events after a cursor.
pub(super) struct Feed {
    pub(super) remote: Remote,
    pub(super) with_plants: bool,
    /// Where the next page begins; `None` for the oldest event.
    pub(super) start: Option<EventStart>,
    pub(super) output: Output,
}

/// What a page held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    Events,
    Nothing,
}

/// Why there is no page.
pub(super) enum PageFailure {
    /// The server was not reached, or sent no answer.
    Away(anyhow::Error),
    /// The answer broke off, or the server asks for a later request.
    Passing { cause: anyhow::Error, retry_after: Duration },
    /// A retry would fail too.
    Final(Stop),
}

impl PageFailure {
    pub(super) fn into_stop(self) -> Stop {
        match self {
            Self::Away(cause) | Self::Passing { cause, .. } => Stop::Io(cause),
            Self::Final(stop) => stop,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for PageFailure {
    fn from(cause: E) -> Self {
        Self::Final(Stop::Io(cause.into()))
    }
}

impl Feed {
    /// Prints the next page, and moves the cursor behind it. With `wait`, the server waits that long for an event.
    pub(super) fn print_page(&mut self, wait: Duration) -> Result<Printed, PageFailure> {
        let request = self.remote.request(Method::GET, &self.path(wait));
        let answer = self.remote.send(request, ()).map_err(PageFailure::Away)?;
        let mut answer = self.check(answer)?;
        let body = remote::read_body(&mut answer).map_err(|cause| match cause.downcast_ref() {
            Some(ureq::Error::BodyExceedsLimit(_)) => cause.context(self.not_plantd()).into(),
            _ => self.broken_off(cause),
        })?;
        let page: Vec<&RawValue> = match serde_json::from_slice(&body) {
            // Some proxies hide that an answer was cut.
            Err(cause) if cause.is_eof() => return Err(self.broken_off(cause.into())),
            page => page.with_context(|| self.not_plantd())?,
        };
        let last = match page.last() {
            Some(last) => cursor_of(last),
            None => next_cursor(answer.headers()),
        };
        let next = last.with_context(|| self.not_plantd())?;

        if !page.is_empty() {
            let lines: String = page.iter().flat_map(|event| [event.get(), "\n"]).collect();
            let printed = self.output.write_all(lines.as_bytes());
            printed.and_then(|()| self.output.flush()).context(CANNOT_PRINT)?;
        }
        self.start = Some(EventStart::After(next));
        Ok(if page.is_empty() { Printed::Nothing } else { Printed::Events })
    }

    fn path(&self, wait: Duration) -> String {
        let mut path = format!("/events?limit={PAGE_MAX_EVENTS}");
        if let Some(start) = self.start {
            path.push_str(&format!("&after={start}"));
        }
        if !wait.is_zero() {
            path.push_str(&format!("&wait={}", wait.as_secs()));
        }
        if self.with_plants {
            path.push_str("&plants=true");
        }
        path
    }

    /// Turns every status but 200 into a failure.
    fn check(&self, answer: Response<Body>) -> Result<Response<Body>, PageFailure> {
        let status = answer.status();
        let retry_after = retry_after(answer.headers()).unwrap_or_default().min(RETRY_AFTER_MAX);
        let stop = if status == 410 { gone } else { Stop::Usage };
        self.remote.check(answer, stop).map_err(|stop| match stop {
            Stop::Io(cause) if status.is_server_error() || status == 408 || status == 429 => {
                PageFailure::Passing { cause, retry_after }
            }
            stop => PageFailure::Final(stop),
        })
    }

    fn broken_off(&self, cause: anyhow::Error) -> PageFailure {
        let cause = cause.context(format!("the answer of {} broke off", self.remote.url()));
        PageFailure::Passing { cause, retry_after: Duration::ZERO }
    }

    fn not_plantd(&self) -> String {
        self.remote.not_plantd("does not answer as plantd does")
    }
}

/// The failure for a cursor whose events are no longer kept.
fn gone(cause: anyhow::Error) -> Stop {
    Stop::Findings(cause.context(
        "the events after the cursor are gone; export the plants again, and follow from the X-Events-After of that \
         export with --after",
    ))
}

/// The cursor of an event.
fn cursor_of(event: &RawValue) -> anyhow::Result<EventCursor> {
    #[derive(Deserialize)]
    struct WithCursor<'a> {
        cursor: &'a str,
    }
    let WithCursor { cursor } = serde_json::from_str(event.get())?;
    Ok(cursor.parse()?)
}

/// The cursor behind a page, from the link to the next one.
fn next_cursor(headers: &HeaderMap) -> anyhow::Result<EventCursor> {
    let after = remote::start_of_next_page(headers, "after");
    Ok(after.context("its answer has no link to the next page")?.parse()?)
}
