//! `plantd get`.

use std::num::NonZeroU64;

use anyhow::anyhow;
use clap::Args;
use plant_domain::PlantId;
use plant_http::transfer::TransferFormat;
use ureq::http::Method;

use crate::client::plant_pages::read_plants;
use crate::client::remote::{self, Remote, RemoteOptions};
use crate::exit::Stop;
use crate::transfer::plant_printer::PlantPrinter;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Prints a table at a terminal, and JSON anywhere else. Exit code 1: there is no such plant, or no \
    such revision."
)]
pub(crate) struct GetOptions {
    /// The id of the plant
    #[arg(allow_negative_numbers = true)]
    id: PlantId,

    /// The plant as it was at this revision, which its history has
    #[arg(long, value_name = "REVISION")]
    revision: Option<NonZeroU64>,

    /// Print JSON at a terminal too
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    remote: RemoteOptions,
}

pub(crate) fn run(options: &GetOptions) -> Result<(), Stop> {
    let remote = Remote::new(&options.remote)?;
    let mut printer = PlantPrinter::open(options.json)?;
    let revision = options.revision.map(|revision| format!("?revision={revision}"));
    let path = format!("/plants/{}{}", options.id, revision.unwrap_or_default());
    let answer = remote.send(remote.request(Method::GET, &path), ())?;
    let is_missing = matches!(answer.status().as_u16(), 404 | 410);
    let stop = if is_missing { Stop::Findings } else { Stop::Usage };
    let mut answer = remote.check(answer, stop)?;
    let plants = read_plants(TransferFormat::NdJson.into(), &remote::read_body(&mut answer)?)?;
    if !matches!(&plants[..], [plant] if plant.id() == options.id) {
        return Err(Stop::Io(anyhow!(remote.not_plantd("answers with another plant"))));
    }
    printer.print(&plants)
}
