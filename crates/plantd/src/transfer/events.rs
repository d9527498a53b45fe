//! `plantd events`: prints events as NDJSON.
//!
//! A page is read whole, then printed, and then the cursor moves. So an answer that breaks off prints nothing, and the
//! next request begins where the output ends.

use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::Args;
use plant_http::limits::{EVENTS_WAIT_MAX, PAGE_MAX_EVENTS};
use plant_store::{EventCursor, NotACursor};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;
use ureq::Body;
use ureq::http::{HeaderMap, Method, Response, header};

use crate::client::backoff::Backoff;
use crate::client::remote::{self, Remote, RemoteOptions};
use crate::exit::Stop;
use crate::transfer::output::{Output, cannot_write};

/// Standard output.
const STANDARD_OUTPUT: &str = "-";

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Prints one JSON object on each line, as the server sends it. With --follow, only the first connection \
    has to succeed: later,\nplantd connects again by itself, and prints no event twice. Exit code 1: the events after the \
    cursor are not all there any more."
)]
pub(crate) struct EventsOptions {
    /// Print the events after this cursor, or with now only those still to come [default: all events that are kept]
    #[arg(long, value_name = "CURSOR|now", value_parser = start, allow_hyphen_values = true)]
    after: Option<Start>,

    /// Wait for more events without end, also while the server is away
    #[arg(long)]
    follow: bool,

    /// Show in each event the plant as it is now
    #[arg(long)]
    plants: bool,

    #[command(flatten)]
    remote: RemoteOptions,
}

/// Where the events begin.
#[derive(Clone, Copy, Debug)]
enum Start {
    Now,
    After(EventCursor),
}

impl fmt::Display for Start {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => formatter.write_str("now"),
            Self::After(cursor) => cursor.fmt(formatter),
        }
    }
}

fn start(text: &str) -> anyhow::Result<Start> {
    if text == "now" {
        return Ok(Start::Now);
    }
    let cursor = text.parse();
    cursor.map(Start::After).map_err(|cause: NotACursor| anyhow!("it is not now, and {cause}"))
}

pub(crate) fn run(options: &EventsOptions) -> Result<(), Stop> {
    let remote = Remote::new(&options.remote)?;
    let output = Output::open(Path::new(STANDARD_OUTPUT)).with_context(cannot_print)?;
    let mut feed = Feed { remote, with_plants: options.plants, start: options.after, output };
    if options.follow {
        return follow_for_reader(feed);
    }
    while feed.print_page(Duration::ZERO).map_err(Failure::into_stop)? == Printed::Events {}
    Ok(())
}

/// Follows until the reader of standard output is gone. A write would notice that only with the next event.
fn follow_for_reader(mut feed: Feed) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = spawn_blocking(move || feed.follow()) => ended?,
            gone = spawn_blocking(wait_until_reader_is_gone) => {
                Ok(gone?.with_context(cannot_print)?)
            }
        }
    });
    // A request may be waiting for an event.
    runtime.shutdown_background();
    ended
}

/// Waits until nothing can read standard output any more, which is an error as it is for a write. Has no end for a file.
fn wait_until_reader_is_gone() -> io::Result<()> {
    let stdout = io::stdout();
    loop {
        // The error and the hang-up are always reported.
        match poll(&mut [PollFd::new(&stdout, PollFlags::empty())], None) {
            Ok(_) => return Err(Errno::PIPE.into()),
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

/// The events after a cursor.
struct Feed {
    remote: Remote,
    with_plants: bool,
    /// Where the next page begins; with the oldest event if there is none.
    start: Option<Start>,
    output: Output,
}

/// What a page held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Printed {
    Events,
    Nothing,
}

/// Why there is no page.
enum Failure {
    /// The server was not reached, or sent no answer.
    Away(anyhow::Error),
    /// The answer broke off, or the server asks for a later request.
    Passing { cause: anyhow::Error, retry_after: Duration },
    /// A repeat would fail too.
    Final(Stop),
}

impl Failure {
    fn into_stop(self) -> Stop {
        match self {
            Self::Away(cause) | Self::Passing { cause, .. } => Stop::Io(cause),
            Self::Final(stop) => stop,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(cause: E) -> Self {
        Self::Final(Stop::Io(cause.into()))
    }
}

impl Feed {
    /// Prints events until a failure that a repeat cannot mend.
    fn follow(&mut self) -> Result<(), Stop> {
        let mut backoff = Backoff::new();
        // The first request fixes the cursor of `now` at once.
        let mut wait = Duration::ZERO;
        let mut was_reached = false;
        let mut is_interrupted = false;
        loop {
            let asked = Instant::now();
            let failure = match self.print_page(wait) {
                Ok(printed) => {
                    was_reached = true;
                    if std::mem::take(&mut is_interrupted) {
                        say("following again");
                    }
                    let waited_for = std::mem::replace(&mut wait, EVENTS_WAIT_MAX);
                    match printed {
                        // A server that ends does not wait, and a cache before it might not either.
                        Printed::Nothing if asked.elapsed() < waited_for / 2 => {
                            thread::sleep(backoff.pause());
                        }
                        // The server may fail again when it waits.
                        Printed::Nothing if waited_for.is_zero() => {}
                        Printed::Events | Printed::Nothing => backoff = Backoff::new(),
                    }
                    continue;
                }
                Err(failure) => failure,
            };
            let (cause, retry_after) = match failure {
                Failure::Away(cause) if was_reached => {
                    // Shows at once when the server is back.
                    wait = Duration::ZERO;
                    (cause, Duration::ZERO)
                }
                Failure::Passing { cause, retry_after } => (cause, retry_after),
                failure => return Err(failure.into_stop()),
            };
            was_reached = true;
            if !std::mem::replace(&mut is_interrupted, true) {
                say(&format!("interrupted, and trying again: {cause:#}"));
            }
            thread::sleep(retry_after.saturating_add(backoff.pause()));
        }
    }

    /// Prints the next page, and moves the cursor behind it. With `wait`, the server waits that long for an event.
    fn print_page(&mut self, wait: Duration) -> Result<Printed, Failure> {
        let request = self.remote.request(Method::GET, &self.path(wait));
        let answer = self.remote.send(request, ()).map_err(Failure::Away)?;
        let mut answer = self.check(answer)?;
        let body = remote::read_body(&mut answer).map_err(|cause| self.broken_off(cause))?;
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
            printed.and_then(|()| self.output.flush()).with_context(cannot_print)?;
        }
        self.start = Some(Start::After(next));
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
    fn check(&self, answer: Response<Body>) -> Result<Response<Body>, Failure> {
        let status = answer.status();
        let retry_after = retry_after(answer.headers());
        let stop = if status == 410 { gone } else { Stop::Usage };
        self.remote.check(answer, stop).map_err(|stop| match stop {
            Stop::Io(cause) if status.is_server_error() || status == 408 || status == 429 => {
                Failure::Passing { cause, retry_after }
            }
            stop => Failure::Final(stop),
        })
    }

    fn broken_off(&self, cause: anyhow::Error) -> Failure {
        let cause = cause.context(format!("the answer of {} broke off", self.remote.url()));
        Failure::Passing { cause, retry_after: Duration::ZERO }
    }

    fn not_plantd(&self) -> String {
        format!(
            "{} does not answer as plantd does; give the URL of plantd itself with --url",
            self.remote.url()
        )
    }
}

/// The failure for a cursor whose events are no longer kept.
fn gone(cause: anyhow::Error) -> Stop {
    Stop::Findings(cause.context(
        "the events after the cursor are gone; export the plants again, and follow from the X-Events-After of that \
         export with --after",
    ))
}

/// The whole seconds in `Retry-After`.
fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|seconds| seconds.parse::<u32>().ok());
    Duration::from_secs(seconds.unwrap_or_default().into())
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

/// The cursor behind a page, from the link to the next one. A proxy may have changed the path.
fn next_cursor(headers: &HeaderMap) -> anyhow::Result<EventCursor> {
    let next = remote::next_page(headers).context("its answer has no link to the next page")?;
    let (_, query) = next.split_once('?').unwrap_or_default();
    let after = query.split('&').find_map(|parameter| parameter.strip_prefix("after="));
    Ok(after.unwrap_or_default().parse()?)
}

fn cannot_print() -> String {
    cannot_write(Path::new(STANDARD_OUTPUT))
}

/// Tells the user. Failing to do so is not an error.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
