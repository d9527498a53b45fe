//! `plantd list`.

use std::num::NonZeroUsize;

use clap::Args;
use indicatif::HumanCount;
use plant_http::limits::PAGE_MAX_PLANTS;

use crate::client::plant_pages::{PlantPages, Selection};
use crate::client::remote::{Remote, RemoteOptions};
use crate::exit::Stop;
use crate::option_value::whole_number;
use crate::print::say;
use crate::transfer::plant_printer::PlantPrinter;

/// How many plants are listed at a terminal unless `--limit` says otherwise.
const TERMINAL_PLANTS: usize = 100;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Prints a table at a terminal, and one JSON object on each line anywhere else."
)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    selection: Selection,

    /// How many plants to list at most [default: 100 at a terminal, all plants anywhere else]
    #[arg(long, value_name = "N", value_parser = whole_number(NonZeroUsize::MIN..=NonZeroUsize::MAX))]
    limit: Option<NonZeroUsize>,

    /// Print JSON at a terminal too
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    remote: RemoteOptions,
}

pub(crate) fn run(options: &ListOptions) -> Result<(), Stop> {
    let remote = Remote::new(&options.remote)?;
    let mut printer = PlantPrinter::open(options.json)?;
    let limit = match options.limit {
        Some(limit) => limit.get(),
        None if printer.is_at_terminal() => TERMINAL_PLANTS,
        None => usize::MAX,
    };
    let mut pages = PlantPages::new(&remote, &options.selection, None);
    let (mut listed, mut total) = (0, None);
    while listed < limit
        && let Some(page) = pages.next(PAGE_MAX_PLANTS.min(limit - listed))?
    {
        printer.print(&page.plants)?;
        listed += page.plants.len();
        total = page.total;
    }
    if printer.is_at_terminal() && listed == 0 {
        say("there are no such plants");
    } else if options.limit.is_none() && !pages.is_over() {
        say(&hint(listed, total));
    }
    Ok(())
}

/// What to tell a person who has not seen all plants.
fn hint(listed: usize, total: Option<u64>) -> String {
    let more = match total {
        Some(total) => format!("of {} plants are shown", HumanCount(total)),
        None => "plants are shown, and more may follow".to_owned(),
    };
    format!("{listed} {more}; --limit N shows more")
}
