//! `plantd export`.

use std::io::{self, ErrorKind, Read, Write as _};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use indicatif::ProgressBar;
use plant_http::{TOTAL_COUNT_HEADER, TransferFormat};
use ureq::http::{HeaderMap, Method, Response, header};
use ureq::{Body, Error};

use crate::cli::ExportOptions;
use crate::output::Output;
use crate::remote::{self, Remote, transfer_format};
use crate::{Stop, progress, salvage};

/// How much is read and written at a time, in bytes.
const BUFFER_BYTES: usize = 128 * 1024;

pub(crate) fn run(options: &ExportOptions) -> Result<(), Stop> {
    let format = transfer_format(options.format, &options.file)?;
    if let Some(data) = &options.data {
        return salvage::run(data, &options.file, format);
    }
    let remote = Remote::new(&options.remote)?;
    let cannot_write = || cannot_write(&options.file);
    let mut output = Output::open(&options.file).with_context(cannot_write).map_err(Stop::Io)?;

    let begun = Instant::now();
    let answer = ask(&remote, format)?;
    let progress = progress::of_plants(total(answer.headers()));
    let copied = copy(answer, &mut output, format, &progress);
    progress.finish_and_clear();
    let plants = copied.map_err(|broken| match broken {
        Broken::Source(cause) => cause.context(format!(
            "{} broke off before the end, and what came is no whole export; run it again",
            remote.url()
        )),
        Broken::Output(cause) => anyhow::Error::from(cause).context(cannot_write()),
    });
    let plants = plants.map_err(Stop::Io)?;
    output.finish().with_context(cannot_write).map_err(Stop::Io)?;

    let summary = progress::summary(plants, begun.elapsed());
    // The plants are where they belong, whether anybody hears it or not.
    let _ = writeln!(io::stderr(), "exported {summary}");
    Ok(())
}

pub(crate) fn cannot_write(file: &Path) -> String {
    match file == Path::new("-") {
        true => "cannot write to standard output".to_owned(),
        false => format!("cannot write {}", file.display()),
    }
}

/// The answer that brings the plants in this format, and whose end can be told.
fn ask(remote: &Remote, format: TransferFormat) -> Result<Response<Body>, Stop> {
    let answer = remote
        .request(Method::GET, "/plants/export")
        .header(header::ACCEPT, format.media_type())
        .body(())
        .map_err(anyhow::Error::from)
        .and_then(|request| remote.send(request))
        .with_context(|| remote.cannot_reach())
        .map_err(Stop::Io)?;
    let answer = remote.check(answer, Stop::Usage)?;

    let headers = answer.headers();
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case(format.media_type()) {
        return Err(Stop::Io(anyhow!(
            "{} answers with {:?} where {} was asked for; name by --url where plantd itself is",
            remote.url(),
            content_type,
            format.media_type()
        )));
    }
    // A body that ends where the connection does may have been cut anywhere.
    if !headers.contains_key(header::TRANSFER_ENCODING)
        && !headers.contains_key(header::CONTENT_LENGTH)
    {
        return Err(Stop::Io(anyhow!(
            "{} does not say where its answer ends, so that a part could pass for the whole; name by \
             --url where plantd itself is",
            remote.url()
        )));
    }
    Ok(answer)
}

/// How many plants there are when the export begins.
fn total(headers: &HeaderMap) -> Option<u64> {
    headers.get(TOTAL_COUNT_HEADER)?.to_str().ok()?.parse().ok()
}

/// Which side of a copy failed.
enum Broken {
    Source(anyhow::Error),
    Output(io::Error),
}

/// Copies all plants, and returns how many there were.
fn copy(
    answer: Response<Body>,
    output: &mut Output,
    format: TransferFormat,
    progress: &ProgressBar,
) -> Result<u64, Broken> {
    let mut source = answer.into_body().into_reader();
    let mut buffer = vec![0; BUFFER_BYTES];
    // In both formats no row has a line end within, for no plant has one.
    let mut lines = 0;
    let header_lines = match format {
        TransferFormat::Csv => 1,
        TransferFormat::NdJson => 0,
    };
    loop {
        let part = match source.read(&mut buffer) {
            Ok(0) => return Ok(u64::saturating_sub(lines, header_lines)),
            Ok(length) => &buffer[..length],
            Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
            Err(cause) => {
                return Err(Broken::Source(remote::connection_failure(Error::from(cause))));
            }
        };
        output.write_all(part).map_err(Broken::Output)?;
        lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        progress.set_position(lines.saturating_sub(header_lines));
    }
}
