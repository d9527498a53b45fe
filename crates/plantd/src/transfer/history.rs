//! `plantd history`: prints the changes of a plant as NDJSON.

use std::io::Write as _;
use std::num::NonZeroUsize;

use anyhow::Context as _;
use clap::Args;
use plant_domain::PlantId;
use plant_http::limits::PAGE_MAX_CHANGES;
use plant_http::transfer::HISTORY_COMPLETE_HEADER;
use serde_json::value::RawValue;
use ureq::http::Method;

use crate::client::remote::{self, NOT_FROM_PLANTD, Remote, RemoteOptions};
use crate::exit::Stop;
use crate::option_value::whole_number;
use crate::print::{CANNOT_PRINT, say};
use crate::transfer::output::Output;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Prints one JSON object on each line, the newest change first. A deleted plant has a history too. Exit \
    code 1: nothing is known of the plant."
)]
pub(crate) struct HistoryOptions {
    /// The id of the plant
    #[arg(allow_negative_numbers = true)]
    id: PlantId,

    /// How many changes to print at most [default: all that are known]
    #[arg(long, value_name = "N", value_parser = whole_number(NonZeroUsize::MIN..=NonZeroUsize::MAX))]
    limit: Option<NonZeroUsize>,

    #[command(flatten)]
    remote: RemoteOptions,
}

pub(crate) fn run(options: &HistoryOptions) -> Result<(), Stop> {
    let remote = Remote::new(&options.remote)?;
    let mut output = Output::standard().context(CANNOT_PRINT)?;
    let mut left = options.limit.map_or(usize::MAX, NonZeroUsize::get);
    let mut before = String::new();
    loop {
        let (id, limit) = (options.id, PAGE_MAX_CHANGES.min(left));
        let path = format!("/plants/{id}/history?limit={limit}{before}");
        let answer = remote.send(remote.request(Method::GET, &path), ())?;
        let stop = if answer.status() == 404 { Stop::Findings } else { Stop::Usage };
        let mut answer = remote.check(answer, stop)?;
        let body = remote::read_body(&mut answer)?;
        let changes: Vec<&RawValue> = serde_json::from_slice(&body).context(NOT_FROM_PLANTD)?;
        let lines: String = changes.iter().flat_map(|change| [change.get(), "\n"]).collect();
        let printed = output.write_all(lines.as_bytes()).and_then(|()| output.flush());
        printed.context(CANNOT_PRINT)?;
        if answer.headers().get(HISTORY_COMPLETE_HEADER).is_some_and(|value| value == "false") {
            say("older changes are no longer kept");
        }
        left = left.saturating_sub(changes.len());
        match remote::start_of_next_page(answer.headers(), "before") {
            Some(next) if left > 0 && !changes.is_empty() => before = format!("&before={next}"),
            _ => return Ok(()),
        }
    }
}
