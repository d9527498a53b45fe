//! `plantd health`.

use anyhow::anyhow;
use clap::Args;

use crate::client::remote::{UrlOptions, agent, explained};
use crate::exit::Stop;

#[derive(Clone, Debug, Args)]
#[command(after_help = "Needs no token. Exit code 1: the server is not ready.")]
pub(crate) struct HealthOptions {
    #[command(flatten)]
    server: UrlOptions,
}

/// Asks `/readyz`.
pub(crate) fn run(
    HealthOptions { server: UrlOptions { url } }: &HealthOptions,
) -> Result<(), Stop> {
    let answer = agent().get(format!("{url}/readyz")).call();
    let status = answer.map_err(|error| explained(url, error))?.status();
    if status.as_u16() != 200 {
        return Err(Stop::Findings(anyhow!("{url} is not ready: it answered {status}")));
    }
    Ok(())
}
