//! `plantd import`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use indicatif::HumanCount;
use plant_http::transfer::{FailedRow, ImportFormat, ImportReport, TransferFormat, way_to_go_on};
use plant_store::OnConflict;
use ureq::http::{Method, Response, header};
use ureq::{Body, SendBody};

use crate::client::remote::{self, Remote, RemoteOptions};
use crate::exit::Stop;
use crate::terminal::printable;
use crate::transfer::upload::{Source, Upload, cannot_read};
use crate::transfer::{format, progress_bar};

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "It ends with 0 when every plant was taken or skipped, and with 1 when there \
    are some that were not;\nthose are listed, and the others are in the store."
)]
pub(crate) struct ImportOptions {
    /// The file of the plants; - is standard input, which must not rest for 10 s
    file: PathBuf,

    /// What is in the file; json is an array of plants [default: as its name says, .csv, .json, .ndjson or .jsonl;
    /// ndjson for -]
    #[arg(long, value_name = "csv|json|ndjson")]
    format: Option<ImportFormat>,

    /// What becomes of a plant whose id is taken
    #[arg(long, value_name = "error|skip|replace", default_value_t)]
    on_conflict: OnConflict,

    #[command(flatten)]
    remote: RemoteOptions,
}

pub(crate) fn run(options: &ImportOptions) -> Result<(), Stop> {
    let format = format::of_file(options.format, &options.file)?;
    let remote = Remote::new(&options.remote)?;
    let source = Source::open(&options.file)
        .with_context(|| cannot_read(&options.file))
        .map_err(Stop::Io)?;

    check_access(options, &remote)?;

    let begun = Instant::now();
    let progress = progress_bar::of_bytes(source.length());
    let report = send(options, format, &remote, Upload::new(source, format, &progress));
    progress.finish_and_clear();
    let report = report?;

    say_failed(&report, &options.file);
    say_summary(&report, begun).map_err(Stop::Io)?;
    if report.failed > 0 {
        let failed = HumanCount(report.failed);
        let ways = match options.on_conflict {
            OnConflict::Error => {
                "skip, which keeps plants whose ids are taken, or with replace, which takes those of the file"
            }
            OnConflict::Skip => "skip",
            OnConflict::Replace => "replace",
        };
        return Err(Stop::Findings(anyhow!(
            "rows that failed: {failed}; mend them and import all again with --on-conflict {ways}"
        )));
    }
    Ok(())
}

/// Imports nothing, so that a server that does not take the token says so before the file is sent.
fn check_access(options: &ImportOptions, remote: &Remote) -> Result<(), Stop> {
    let answer = remote
        .request(Method::POST, "/plants/import")
        .header(header::CONTENT_TYPE, TransferFormat::NdJson.media_type())
        .body(())
        .map_err(anyhow::Error::from)
        .and_then(|request| remote.send(request));
    let answer = answer.map_err(Stop::Io)?;
    read_report(options, remote, answer, 0).map(drop)
}

fn send(
    options: &ImportOptions,
    format: ImportFormat,
    remote: &Remote,
    mut upload: Upload<'_>,
) -> Result<ImportReport, Stop> {
    let on_conflict = options.on_conflict;
    let mut request = remote
        .request(Method::POST, &format!("/plants/import?on_conflict={on_conflict}"))
        .header(header::CONTENT_TYPE, format.media_type());
    if let Some(length) = upload.left() {
        request = request.header(header::CONTENT_LENGTH, length);
    }
    let answer = request
        .body(SendBody::from_reader(&mut upload))
        .map_err(anyhow::Error::from)
        .and_then(|request| remote.send(request))
        .map_err(|cause| {
            let url = remote.url();
            let (what, cause) = match upload.take_failure() {
                Some(cause) => (cannot_read(&options.file), cause.into()),
                None => (format!("{url} did not take all of it"), cause),
            };
            let advice = match upload.sent() {
                0 => String::new(),
                _ => format!(
                    "; plants that were taken until then stay, to go on import all again with \
                     --on-conflict {}",
                    way_to_go_on(on_conflict)
                ),
            };
            Stop::Io(cause.context(what + &advice))
        })?;
    read_report(options, remote, answer, upload.finish())
}

/// The report, which accounts for each of the rows that were sent.
fn read_report(
    options: &ImportOptions,
    remote: &Remote,
    answer: Response<Body>,
    rows: u64,
) -> Result<ImportReport, Stop> {
    let mut answer = remote.check(answer, Stop::Findings)?;
    let report: anyhow::Result<ImportReport> = remote::read_json(&mut answer);
    let report = report.and_then(|report| {
        let ImportReport { created, replaced, skipped, failed, errors: _ } = report;
        let told = [created, replaced, skipped, failed].into_iter().fold(0, u64::saturating_add);
        ensure!(told == rows, "{rows} rows were sent, and it tells of {told}");
        Ok(report)
    });
    report
        .with_context(|| {
            format!(
                "{} does not tell what became of each row; see that --url names plantd itself, and import all \
                 again with --on-conflict {}",
                remote.url(), way_to_go_on(options.on_conflict)
            )
        })
        .map_err(Stop::Io)
}

/// Lists the rows that failed.
fn say_failed(report: &ImportReport, file: &Path) {
    let mut stderr = io::BufWriter::new(io::stderr().lock());
    let file = file.display();
    for FailedRow { line, error } in &report.errors {
        let error = printable(&error.to_string());
        // Nobody is there to be told when it cannot be printed; the exit code tells.
        let _ = writeln!(stderr, "{file}:{line}: {error}");
    }
    let unlisted = report.failed.saturating_sub(report.errors.len() as u64);
    if unlisted > 0 {
        let unlisted = HumanCount(unlisted);
        let _ = writeln!(stderr, "{file}: {unlisted} more rows failed, which are not listed");
    }
    let _ = stderr.flush();
}

fn say_summary(report: &ImportReport, begun: Instant) -> anyhow::Result<()> {
    let ImportReport { created, replaced, skipped, failed, errors: _ } = report;
    let imported = progress_bar::summary(created + replaced, begun.elapsed());
    let [created, replaced, skipped, failed] =
        [created, replaced, skipped, failed].map(|rows| HumanCount(*rows));
    let mut stdout = io::stdout().lock();
    writeln!(
        stdout,
        "imported {imported}: {created} created, {replaced} replaced, {skipped} skipped, \
         {failed} failed"
    )
    .and_then(|()| stdout.flush())
    .context("cannot write to standard output; the plants are imported")
}
