//! `plantd events`: prints events as NDJSON.

mod feed;
mod follow;

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use plant_http::transfer::EventStart;

use crate::client::remote::{Remote, RemoteOptions};
use crate::exit::Stop;
use crate::print::CANNOT_PRINT;
use crate::transfer::events::feed::{Feed, PageFailure, Printed};
use crate::transfer::events::follow::follow_for_reader;
use crate::transfer::output::Output;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Prints one JSON object on each line, as the server sends it. With --follow, only the first connection \
    has to succeed: later, plantd connects again by itself, and prints no event twice. Exit code 1: the events after the \
    cursor are not all there any more."
)]
pub(crate) struct EventsOptions {
    /// Print the events after this cursor, or with now only those still to come [default: all events that are kept]
    #[arg(long, value_name = "CURSOR|now", allow_hyphen_values = true)]
    after: Option<EventStart>,

    /// Wait for more events without end, also while the server is away
    #[arg(long)]
    follow: bool,

    /// Show in each event the plant as it is now
    #[arg(long)]
    plants: bool,

    #[command(flatten)]
    remote: RemoteOptions,
}

pub(crate) fn run(options: &EventsOptions) -> Result<(), Stop> {
    let remote = Remote::new(&options.remote)?;
    let output = Output::standard().context(CANNOT_PRINT)?;
    let mut feed = Feed { remote, with_plants: options.plants, start: options.after, output };
    if options.follow {
        return follow_for_reader(feed);
    }
    while feed.print_page(Duration::ZERO).map_err(PageFailure::into_stop)? == Printed::Events {}
    Ok(())
}
