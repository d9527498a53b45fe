//! `plantd import`.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, anyhow, ensure};
use indicatif::{HumanCount, ProgressBar};
use plant_http::transfer::{
    FailedRow, ImportFormat, ImportReport, RowReader, TransferFormat, way_to_go_on,
};
use plant_store::OnConflict;
use ureq::http::{Method, Response, header};
use ureq::{Body, SendBody};

use crate::Stop;
use crate::cli::ImportOptions;
use crate::progress;
use crate::remote::{self, Remote, transfer_format};

pub(crate) fn run(options: &ImportOptions) -> Result<(), Stop> {
    let format = transfer_format(options.format, &options.file)?;
    let remote = Remote::new(&options.remote)?;
    let source = Source::open(&options.file)
        .with_context(|| cannot_read(&options.file))
        .map_err(Stop::Io)?;

    check_access(options, &remote)?;

    let begun = Instant::now();
    let progress = progress::of_bytes(source.length);
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
    if let Some(length) = upload.left {
        request = request.header(header::CONTENT_LENGTH, length);
    }
    let answer = request
        .body(SendBody::from_reader(&mut upload))
        .map_err(anyhow::Error::from)
        .and_then(|request| remote.send(request))
        .map_err(|cause| {
            let url = remote.url();
            let (what, cause) = match upload.failure.take() {
                Some(cause) => (cannot_read(&options.file), cause.into()),
                None => (format!("{url} did not take all of it"), cause),
            };
            let advice = match upload.sent {
                0 => String::new(),
                _ => format!(
                    "; plants that were taken until then stay, to go on import all again with \
                     --on-conflict {}",
                    way_to_go_on(on_conflict)
                ),
            };
            Stop::Io(cause.context(what + &advice))
        })?;
    read_report(options, remote, answer, upload.rows.finish())
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

fn cannot_read(file: &Path) -> String {
    match is_standard(file) {
        true => "cannot read standard input".to_owned(),
        false => format!("cannot read {}", file.display()),
    }
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

/// What is read from.
struct Source {
    file: File,
    /// How many bytes there are to come, where that can be known.
    length: Option<u64>,
}

impl Source {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = if is_standard(path) {
            io::stdin().as_fd().try_clone_to_owned()?.into()
        } else {
            File::open(path)?
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        let length = if metadata.is_file() {
            // Standard input may be a file that somebody has begun to read.
            Some(metadata.len().saturating_sub(file.stream_position()?))
        } else {
            None
        };
        Ok(Self { file, length })
    }
}

/// The body of the request: the source, as long as the server reads it.
struct Upload<'a> {
    file: File,
    /// How many bytes of an announced length are to come.
    left: Option<u64>,
    progress: &'a ProgressBar,
    /// How many bytes were handed on to be sent.
    sent: u64,
    rows: RowCounter,
    /// Why the source could not be read.
    failure: Option<io::Error>,
}

impl<'a> Upload<'a> {
    fn new(source: Source, format: ImportFormat, progress: &'a ProgressBar) -> Self {
        let Source { file, length } = source;
        let rows = RowCounter::new(format);
        Self { file, left: length, progress, sent: 0, rows, failure: None }
    }

    fn read_source(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = match self.left {
            Some(left) => buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX)),
            None => buffer.len(),
        };
        let read = loop {
            match self.file.read(&mut buffer[..room]) {
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if read == 0 && room > 0 && self.left.is_some() {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "it has become shorter meanwhile",
            ));
        }
        self.sent += read as u64;
        self.rows.read(&buffer[..read]);
        self.progress.inc(read as u64);
        Ok(read)
    }
}

/// Counts the rows of what is sent, as the server counts them.
struct RowCounter {
    /// `None` when the server reads no more rows, whatever follows.
    rows: Option<RowReader>,
    count: u64,
}

impl RowCounter {
    fn new(format: ImportFormat) -> Self {
        Self { rows: Some(RowReader::new(format)), count: 0 }
    }

    fn read(&mut self, part: &[u8]) {
        let Some(rows) = &mut self.rows else { return };
        match rows.read(part) {
            Ok(found) => self.count += found.len() as u64,
            Err(_) => self.rows = None,
        }
    }

    /// How many rows there are in all of what was read.
    fn finish(self) -> u64 {
        let last = self.rows.and_then(|mut rows| rows.finish().ok());
        self.count + last.map_or(0, |found| found.len() as u64)
    }
}

impl Read for Upload<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.read_source(buffer) {
            Ok(read) => {
                self.left = self.left.map(|left| left.saturating_sub(read as u64));
                Ok(read)
            }
            Err(cause) => {
                self.failure = Some(cause);
                // It ends the request, and stays behind the one that is kept.
                Err(io::Error::other("the source cannot be read"))
            }
        }
    }
}

/// Lists the rows that failed.
fn say_failed(report: &ImportReport, file: &Path) {
    let mut stderr = io::BufWriter::new(io::stderr().lock());
    let file = file.display();
    for FailedRow { line, error } in &report.errors {
        let error = remote::printable(&error.to_string());
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
    let imported = progress::summary(created + replaced, begun.elapsed());
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
