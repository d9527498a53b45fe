//! `plantd health`.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use ureq::Error;

use crate::client::remote::{UrlOptions, agent, explained};
use crate::exit::Stop;

/// How long the answer may take. Docker ends the command after the 5 s that the image sets, and would then not show why the check
/// failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, Args)]
#[command(after_help = format!(
    "Needs no token. Exit code 1: the server is not ready, or does not answer within {} s.",
    ANSWER_TIMEOUT.as_secs()
))]
pub(crate) struct HealthOptions {
    #[command(flatten)]
    server: UrlOptions,
}

/// Asks `/readyz`.
pub(crate) fn run(
    HealthOptions { server: UrlOptions { url } }: &HealthOptions,
) -> Result<(), Stop> {
    let request = agent(url).get(url.at("/readyz"));
    let answer = request.config().timeout_global(Some(ANSWER_TIMEOUT)).build().call();
    let problem = match answer {
        Ok(answer) if answer.status().as_u16() == 200 => return Ok(()),
        Ok(answer) => format!("it answered {}", answer.status()),
        Err(Error::Timeout(_)) => {
            format!("it does not answer within {} s", ANSWER_TIMEOUT.as_secs())
        }
        Err(error) => return Err(explained(url, error).into()),
    };
    Err(Stop::Findings(anyhow!("{url} is not ready: {problem}")))
}
