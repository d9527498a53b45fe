//! `plantd backup`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::Args;
use indicatif::{DecimalBytes, HumanCount, ProgressBar};
use plant_http::transfer::BACKUP_MEDIA_TYPE;
use plant_store::{BackupReader, OpenError};
use ureq::Body;
use ureq::http::{Method, Response};

use crate::client::backoff::{Backoff, retry_after};
use crate::client::remote::{Remote, RemoteOptions};
use crate::exit::Stop;
use crate::print::say;
use crate::transfer::broken::Broken;
use crate::transfer::output::{Output, cannot_write};
use crate::transfer::progress_bar;

/// How much is read and written at a time, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// How many bytes are written between two syncs. One large sync at the end would hold up those of a server on the same disk.
const SYNC_BYTES: u64 = 1024 * 1024;

/// How long a busy server is asked again. The nightly backup waits for one by hand, and a failure is still noticed that night.
const BUSY_MAX: Duration = Duration::from_secs(10 * 60);

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The token needs the scope backup. A file gets the whole backup, or stays as it was. plantd verify FILE \
    proves it, and plantd restore FILE makes a data folder of it."
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
    let answer = ask(&remote)?;
    let progress = progress_bar::of_bytes(None);
    let copied = copy(answer, &mut output, &progress);
    progress.finish_and_clear();
    let length =
        copied.map_err(|broken| broken.into_stop("backup", &remote, &options.file, &output))?;
    let of_file = output.unfinished().map(read_back).transpose().map_err(|error| {
        let what = format!("sent no whole backup: {error}");
        anyhow!(remote.not_plantd(&what))
    })?;
    output.finish().with_context(cannot_write)?;

    let (length, seconds) = (DecimalBytes(length), begun.elapsed().as_secs_f64());
    let what = of_file.unwrap_or_default();
    say(&format!("backed up {length} in {seconds:.1} s{what}"));
    Ok(())
}

/// Reads a backup, comparing it with its checksums. Returns what is in it.
fn read_back(file: &Path) -> Result<String, OpenError> {
    let backup = BackupReader::open(file)?;
    let (plants, cursor) = (HumanCount(backup.plants()), backup.position().cursor);
    backup.read_to_end()?;
    Ok(format!(": {plants} plants, up to the change {cursor}"))
}

/// Requests a backup. While the server makes another one, or is busy, asks again after the pause that its answer names.
fn ask(remote: &Remote) -> Result<Response<Body>, Stop> {
    let (begun, mut backoff, mut is_waiting) = (Instant::now(), Backoff::new(), false);
    let answer = loop {
        let answer = remote.send(remote.request(Method::GET, "/backup"), ())?;
        let pause = retry_after(answer.headers()).map(|pause| pause + backoff.pause());
        let pause = pause.filter(|pause| begun.elapsed() + *pause < BUSY_MAX);
        match (remote.check(answer, Stop::Usage), pause) {
            (Err(Stop::Io(cause)), Some(pause)) => {
                if !is_waiting {
                    is_waiting = true;
                    say(&format!("waiting, and trying again: {cause:#}"));
                }
                thread::sleep(pause);
            }
            (checked, _) => break checked?,
        }
    };
    remote.expect_media_type(&answer, BACKUP_MEDIA_TYPE)?;
    remote.expect_framed(&answer)?;
    Ok(answer)
}

/// Copies an answer. Returns its length in bytes.
fn copy(
    answer: Response<Body>,
    output: &mut Output,
    progress: &ProgressBar,
) -> Result<u64, Broken> {
    let mut source = answer.into_body().into_reader();
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut copied, mut synced) = (0, 0);
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(part) => {
                output.write_all(&buffer[..part]).map_err(Broken::Output)?;
                copied += part as u64;
                if copied - synced >= SYNC_BYTES {
                    output.sync_so_far().map_err(Broken::Output)?;
                    synced = copied;
                }
                progress.set_position(copied);
            }
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => return Err(Broken::off(cause)),
        }
    }
}
