//! `plantd health`.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use ureq::Error;

use crate::client::remote::{UrlOptions, agent, explained};
use crate::exit::Stop;

/// How long the answer may take. Less than supervisors give a check by default, such as 5 s in the image.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Needs no token. Exit code 1: the server is not ready, or does not answer within 3 s."
)]
pub(crate) struct HealthOptions {
    #[command(flatten)]
    server: UrlOptions,
}

/// Asks `/readyz`.
pub(crate) fn run(
    HealthOptions { server: UrlOptions { url } }: &HealthOptions,
) -> Result<(), Stop> {
    let request = agent().get(format!("{url}/readyz"));
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
