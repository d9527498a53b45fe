//! Follows events, over outages of the server, as long as there is a reader.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use plant_http::limits::EVENTS_WAIT_MAX;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::task::spawn_blocking;

use crate::client::backoff::Backoff;
use crate::exit::Stop;
use crate::print::{CANNOT_PRINT, ReaderGone, say};
use crate::transfer::events::feed::{Feed, PageFailure, Printed};

/// Follows until the reader of standard output is gone. A write would notice that only with the next event.
pub(super) fn follow_for_reader(mut feed: Feed) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = spawn_blocking(move || follow(&mut feed)) => ended?,
            gone = spawn_blocking(wait_until_reader_is_gone) => {
                Ok(gone?.context(CANNOT_PRINT)?)
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
            Ok(_) => return Err(ReaderGone.into()),
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

/// Prints events until a failure that a retry cannot mend.
fn follow(feed: &mut Feed) -> Result<(), Stop> {
    let mut backoff = Backoff::new();
    // The first request fixes the cursor of `now` at once.
    let mut wait = Duration::ZERO;
    let mut was_reached = false;
    let mut is_interrupted = false;
    loop {
        let asked = Instant::now();
        let failure = match feed.print_page(wait) {
            Ok(printed) => {
                was_reached = true;
                if std::mem::take(&mut is_interrupted) {
                    say("following again");
                }
                let waited_for = std::mem::replace(&mut wait, EVENTS_WAIT_MAX);
                match printed {
                    // A server that drains answers at once, and so might a cache in front of it. Without a pause, this loop
                    // would then send requests without end.
                    Printed::Nothing if asked.elapsed() < waited_for / 2 => {
                        thread::sleep(backoff.pause());
                    }
                    // The request did not ask for a wait, so its answer does not show that a wait succeeds.
                    Printed::Nothing if waited_for.is_zero() => {}
                    Printed::Events | Printed::Nothing => backoff = Backoff::new(),
                }
                continue;
            }
            Err(failure) => failure,
        };
        let (cause, retry_after) = match failure {
            PageFailure::Away(cause) if was_reached => {
                // Without a wait, the next answer shows at once that the server is back.
                wait = Duration::ZERO;
                (cause, Duration::ZERO)
            }
            PageFailure::Passing { cause, retry_after } => (cause, retry_after),
            failure => return Err(failure.into_stop()),
        };
        // An answer came, though perhaps from a proxy: the URL is not mistyped.
        was_reached = true;
        if !std::mem::replace(&mut is_interrupted, true) {
            say(&format!("interrupted, and trying again: {cause:#}"));
        }
        thread::sleep(retry_after.saturating_add(backoff.pause()));
    }
}
