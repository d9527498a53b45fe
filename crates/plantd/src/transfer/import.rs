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

use crate::client::remote::{self, Remote, RemoteOptions, printable};
use crate::exit::Stop;
use crate::print::print;
use crate::transfer::upload::Upload;
use crate::transfer::{cannot_read, format_of_file, progress_bar};

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Exit code 0: every plant was taken or skipped. Exit code 1: some rows failed, and are listed; the \
    others are in the store."
)]
pub(crate) struct ImportOptions {
    /// The file of the plants; - is standard input, which must not pause for 10 s
    file: PathBuf,

    /// The format of the file; json is an array of plants [default: by the name, .csv, .json, .ndjson or .jsonl;
    /// ndjson for -]
    #[arg(long, value_name = "csv|json|ndjson")]
    format: Option<ImportFormat>,

    /// What to do with a plant whose id is taken
    #[arg(long, value_name = "error|skip|replace", default_value_t)]
    on_conflict: OnConflict,

    #[command(flatten)]
    remote: RemoteOptions,
}

pub(crate) fn run(options: &ImportOptions) -> Result<(), Stop> {
    let format = format_of_file(options.format, &options.file)?;
    let remote = Remote::new(&options.remote)?;
    let upload = Upload::open(&options.file, format);
    let mut upload = upload.with_context(|| cannot_read(&options.file))?;

    check_access(options, &remote)?;

    let begun = Instant::now();
    let progress = progress_bar::of_bytes(upload.left);
    upload.progress = progress.clone();
    let report = send(options, format, &remote, upload);
    progress.finish_and_clear();
    let report = report?;

    say_failed(&report, &options.file);
    let printed = print_summary(&report, begun);
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
            "rows that failed: {failed}; correct them and import all again with --on-conflict {ways}"
        )));
    }
    Ok(printed.context("the plants are imported")?)
}

/// Sends an empty import, so that a server that does not accept the token says so before the file is sent.
fn check_access(options: &ImportOptions, remote: &Remote) -> Result<(), Stop> {
    let request = remote
        .request(Method::POST, "/plants/import")
        .header(header::CONTENT_TYPE, TransferFormat::NdJson.media_type());
    read_report(options, remote, remote.send(request, ())?, 0).map(drop)
}

fn send(
    options: &ImportOptions,
    format: ImportFormat,
    remote: &Remote,
    mut upload: Upload,
) -> Result<ImportReport, Stop> {
    let on_conflict = options.on_conflict;
    let mut request = remote
        .request(Method::POST, &format!("/plants/import?on_conflict={on_conflict}"))
        .header(header::CONTENT_TYPE, format.media_type());
    if let Some(length) = upload.left {
        request = request.header(header::CONTENT_LENGTH, length);
    }
    let answer = remote.send(request, SendBody::from_reader(&mut upload)).map_err(|cause| {
        let (what, cause) = match upload.failure.take() {
            Some(cause) => (cannot_read(&options.file), cause.into()),
            None => (format!("{} did not take all of it", remote.url()), cause),
        };
        let advice = match upload.sent {
            0 => String::new(),
            _ => format!(
                "; the plants taken so far stay; to go on, import all again with \
                     --on-conflict {}",
                way_to_go_on(on_conflict)
            ),
        };
        Stop::Io(cause.context(what + &advice))
    })?;
    read_report(options, remote, answer, upload.finish())
}

/// The report, which must account for every row that was sent.
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
        ensure!(told == rows, "{rows} rows were sent, and its report counts {told}");
        Ok(report)
    });
    Ok(report.with_context(|| {
        format!(
            "{} does not tell the outcome of each row; check that --url names plantd itself, and import all again with \
             --on-conflict {}",
            remote.url(),
            way_to_go_on(options.on_conflict)
        )
    })?)
}

/// Lists the rows that failed. Errors of standard error are ignored, because the exit code shows that rows
/// failed.
fn say_failed(report: &ImportReport, file: &Path) {
    let mut stderr = io::BufWriter::new(io::stderr().lock());
    let file = file.display();
    for FailedRow { line, error } in &report.errors {
        let error = printable(&error.to_string());
        let _ = writeln!(stderr, "{file}:{line}: {error}");
    }
    let unlisted = report.failed.saturating_sub(report.errors.len() as u64);
    if unlisted > 0 {
        let unlisted = HumanCount(unlisted);
        let _ = writeln!(stderr, "{file}: {unlisted} more rows failed, which are not listed");
    }
    let _ = stderr.flush();
}

fn print_summary(report: &ImportReport, begun: Instant) -> anyhow::Result<()> {
    let ImportReport { created, replaced, skipped, failed, errors: _ } = report;
    let imported = progress_bar::summary(created + replaced, begun.elapsed());
    let [created, replaced, skipped, failed] =
        [created, replaced, skipped, failed].map(|rows| HumanCount(*rows));
    let summary = format!(
        "imported {imported}: {created} created, {replaced} replaced, {skipped} skipped, \
         {failed} failed\n"
    );
    print(summary.as_bytes())
}
