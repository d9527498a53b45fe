//! `plantd backup`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use clap::Args;
use indicatif::{DecimalBytes, HumanCount, ProgressBar};
use plant_http::transfer::BACKUP_MEDIA_TYPE;
use plant_store::BackupFile;
use ureq::Body;
use ureq::http::{Method, Response, header};

use crate::client::connection_problem;
use crate::client::remote::{Remote, RemoteOptions};
use crate::exit::Stop;
use crate::transfer::output::{Output, cannot_write, say};
use crate::transfer::progress_bar;

/// How much is read and written at a time, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// How many bytes are written between two syncs. One large sync at the end would hold up those of a server on the same disk.
const SYNC_BYTES: u64 = 1024 * 1024;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The token needs the scope backup. A file gets the whole backup, or stays as it was. plantd verify FILE \
    proves it,\nand plantd restore FILE makes a data folder of it."
)]
pub(crate) struct BackupOptions {
    /// The file to write; - is standard output
    file: PathBuf,

    #[command(flatten)]
    remote: RemoteOptions,
}

pub(crate) fn run(options: &BackupOptions) -> Result<(), Stop> {
    let remote = Remote::new(&options.remote)?;
    let cannot_write = || cannot_write(&options.file);
    let mut output = Output::open(&options.file).with_context(cannot_write)?;

    let begun = Instant::now();
    let (answer, length) = ask(&remote)?;
    let progress = progress_bar::of_bytes(Some(length));
    let copied = copy(answer, &mut output, &progress);
    progress.finish_and_clear();
    let copied = copied.with_context(cannot_write)?;
    if let Err(cause) = copied.and_then(|bytes| is_all(bytes, length)) {
        let advice =
            if output.keeps_part() { "throw away the part that was written, and " } else { "" };
        let advice = format!("the backup from {} is not whole; {advice}run it again", remote.url());
        return Err(Stop::Io(cause.context(advice)));
    }
    let backup = output.unfinished().map(BackupFile::open).transpose().map_err(|error| {
        let what = format!("sent no whole backup: {error}");
        anyhow!(remote.not_plantd(&what))
    })?;
    output.finish().with_context(cannot_write)?;

    let (length, seconds) = (DecimalBytes(length), begun.elapsed().as_secs_f64());
    let what = backup.map_or_else(String::new, |backup| {
        let (plants, cursor) = (HumanCount(backup.plants()), backup.position().cursor);
        format!(": {plants} plants, up to the change {cursor}")
    });
    say(&format!("backed up {length} in {seconds:.1} s{what}"));
    Ok(())
}

/// Requests a backup, and returns its length in bytes.
fn ask(remote: &Remote) -> Result<(Response<Body>, u64), Stop> {
    let request = remote.request(Method::GET, "/backup");
    let answer = remote.check(remote.send(request, ())?, Stop::Usage)?;
    let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let content_type = header(header::CONTENT_TYPE).unwrap_or_default();
    if content_type != BACKUP_MEDIA_TYPE {
        let what = format!("answers with {content_type:?} instead of {BACKUP_MEDIA_TYPE}");
        return Err(Stop::Io(anyhow!(remote.not_plantd(&what))));
    }
    let length = header(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let length = length.with_context(|| {
        remote.not_plantd(
            "does not say how long the backup is, so that a part could pass for the whole",
        )
    })?;
    Ok((answer, length))
}

/// Copies the answer, and returns its length, or why it broke off. The outer error is that of the output.
fn copy(
    answer: Response<Body>,
    output: &mut Output,
    progress: &ProgressBar,
) -> std::io::Result<anyhow::Result<u64>> {
    let mut source = answer.into_body().into_reader();
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut copied, mut synced) = (0, 0);
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(Ok(copied)),
            Ok(length) => {
                output.write_all(&buffer[..length])?;
                copied += length as u64;
                if copied - synced >= SYNC_BYTES {
                    output.sync_so_far()?;
                    synced = copied;
                }
                progress.set_position(copied);
            }
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => {
                let cause = connection_problem::cause(ureq::Error::from(cause));
                return Ok(Err(cause.context("it broke off")));
            }
        }
    }
}

fn is_all(bytes: u64, length: u64) -> anyhow::Result<()> {
    anyhow::ensure!(bytes == length, "{bytes} of {length} bytes came");
    Ok(())
}
