//! `plantd batch`: sends a batch of changes, all of which happen or none.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use plant_http::limits::BATCH_BODY_MAX_BYTES;
use serde::Deserialize;
use serde_json::value::RawValue;
use ureq::http::{Method, header};

use crate::client::remote::{self, NOT_FROM_PLANTD, Remote, RemoteOptions};
use crate::exit::Stop;
use crate::print::print;
use crate::transfer::cannot_read;

#[derive(Clone, Debug, Args)]
#[command(after_help = "The file has the body of POST /batch, such as\n\n  \
    {\"requests\":[{\"method\":\"DELETE\",\"path\":\"/plants/7\"}]}\n\n\
    Prints the answer to each request, one JSON object on each line. Exit code 1: the server refused the batch, and \
    nothing changed.")]
pub(crate) struct BatchOptions {
    /// The file of the batch; - is standard input
    file: PathBuf,

    /// Repeat the batch that was sent with this key: if it has happened, it does not happen again [default: a new key]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,

    #[command(flatten)]
    remote: RemoteOptions,
}

#[derive(Deserialize)]
struct BatchAnswer<'a> {
    #[serde(borrow)]
    responses: Vec<&'a RawValue>,
}

pub(crate) fn run(options: &BatchOptions) -> Result<(), Stop> {
    let remote = Remote::new(&options.remote)?;
    let batch = read(&options.file).with_context(|| cannot_read(&options.file))?;
    if batch.len() > BATCH_BODY_MAX_BYTES {
        let most = BATCH_BODY_MAX_BYTES;
        return Err(Stop::Findings(anyhow!("the batch is too large; send at most {most} bytes")));
    }
    let new_key = || format!("{:032x}", fastrand::u128(..));
    let key = options.idempotency_key.clone().unwrap_or_else(new_key);
    let unknown = || format!("the batch may have happened; repeat it with --idempotency-key {key}");
    let request = remote
        .request(Method::POST, "/batch")
        .header(header::CONTENT_TYPE, "application/json")
        .header("Idempotency-Key", format!("\"{key}\""));
    let answer = remote.send(request, &batch[..]).with_context(unknown)?;
    let mut answer = remote.check(answer, Stop::Findings)?;
    let body = remote::read_body(&mut answer).with_context(unknown)?;
    let answer: BatchAnswer<'_> = serde_json::from_slice(&body).context(NOT_FROM_PLANTD)?;
    let lines = answer.responses.iter().flat_map(|response| [response.get(), "\n"]);
    Ok(print(lines.collect::<String>().as_bytes()).context("the batch has happened")?)
}

/// Reads the file, or a little more than a batch may have.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let most = BATCH_BODY_MAX_BYTES as u64 + 1;
    let mut batch = Vec::new();
    if file == Path::new("-") {
        io::stdin().lock().take(most).read_to_end(&mut batch)?;
    } else {
        File::open(file)?.take(most).read_to_end(&mut batch)?;
    }
    Ok(batch)
}
