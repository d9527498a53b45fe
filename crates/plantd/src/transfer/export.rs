//! `plantd export`.

use std::io::{ErrorKind, Read, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use indicatif::{HumanCount, ProgressBar};
use plant_domain::{NewPlant, PlantId};
use plant_http::limits::PAGE_MAX_PLANTS;
use plant_http::transfer::{
    ExportFormat, ReadRow, RowReader, TOTAL_COUNT_HEADER, TransferFormat, row_reader,
};
use ureq::Body;
use ureq::http::{HeaderMap, Method, Response, header};

use crate::client::plant_pages::{self, PlantPages, Selection};
use crate::client::remote::{Remote, RemoteOptions};
use crate::exit::Stop;
use crate::transfer::broken::Broken;
use crate::transfer::output::{Output, cannot_write};
use crate::transfer::{format_of_file, progress_bar, salvage, say_exported};

/// How much is read and written at a time, in bytes.
const BUFFER_BYTES: usize = 128 * 1024;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A file gets the whole export, or stays as it was. With --data, plants that cannot be read are \
    listed and left out, and the exit code is 1."
)]
pub(crate) struct ExportOptions {
    /// The file to write; - is standard output
    #[arg(default_value = "-")]
    file: PathBuf,

    /// The format of the file; csv and ndjson have every text exactly, for programs and for an import; spreadsheet is CSV that
    /// is safe to open in a spreadsheet program, and not for an import [default: by the name, .csv, .ndjson or .jsonl;
    /// ndjson for -]
    #[arg(long, value_name = "csv|ndjson|spreadsheet")]
    format: Option<ExportFormat>,

    #[command(flatten)]
    selection: Selection,

    /// Read the plants from this data folder, even if it is damaged; no server may have it open
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "token_file", "tag", "name"])]
    data: Option<PathBuf>,

    #[command(flatten)]
    remote: RemoteOptions,
}

pub(crate) fn run(options: &ExportOptions) -> Result<(), Stop> {
    let format = format_of_file(options.format, &options.file)?;
    if let Some(data) = &options.data {
        return salvage::run(data, &options.file, format);
    }
    let remote = Remote::new(&options.remote)?;
    let cannot_write = || cannot_write(&options.file);
    let mut output = Output::open(&options.file).with_context(cannot_write)?;

    let begun = Instant::now();
    // Each row is checked as it arrives. A row for a spreadsheet cannot be: its texts differ from those of the plant.
    let sent = match format {
        ExportFormat::Rows(format) => format,
        ExportFormat::Spreadsheet => TransferFormat::NdJson,
    };
    let selection = &options.selection;
    let answer = ask(&remote, selection, sent)?;
    let total = total(&remote, selection, answer.headers())?;
    let progress = progress_bar::of_plants(total);
    let mut export = Export {
        remote: &remote,
        selection,
        format,
        sent,
        total,
        output: &mut output,
        rows: row_reader(sent.into()),
        ends_with_line: true,
        plants: 0,
        last: None,
    };
    let plants = export.copy(answer, &progress);
    progress.finish_and_clear();
    let plants =
        plants.map_err(|broken| broken.into_stop("export", &remote, &options.file, &output))?;
    output.finish().with_context(cannot_write)?;

    say_exported(plants, begun);
    Ok(())
}

/// Requests the plants in this format. Rejects an answer that does not declare where its body ends.
fn ask(
    remote: &Remote,
    selection: &Selection,
    format: TransferFormat,
) -> Result<Response<Body>, Stop> {
    let path = format!("/plants/export{}", selection.parameters().replacen('&', "?", 1));
    let request = remote.request(Method::GET, &path).header(header::ACCEPT, format.media_type());
    let answer = remote.check(remote.send(request, ())?, Stop::Usage)?;

    remote.expect_media_type(&answer, format.media_type())?;
    remote.expect_framed(&answer)?;
    Ok(answer)
}

/// The number of selected plants when the export began, if the server knows it.
fn total(
    remote: &Remote,
    selection: &Selection,
    headers: &HeaderMap,
) -> anyhow::Result<Option<u64>> {
    let total = plant_pages::total(headers);
    ensure!(total.is_some() || !selection.has_total(), {
        let what = format!("answers with a missing or wrong header {TOTAL_COUNT_HEADER}");
        remote.not_plantd(&what)
    });
    Ok(total)
}

/// An export in progress.
struct Export<'a> {
    remote: &'a Remote,
    selection: &'a Selection,
    /// The format of the file.
    format: ExportFormat,
    /// The format of the answer.
    sent: TransferFormat,
    /// The number of selected plants when the export began, if the server knows it.
    total: Option<u64>,
    output: &'a mut Output,
    rows: Box<dyn RowReader>,
    ends_with_line: bool,
    /// How many plants have arrived.
    plants: u64,
    /// The id of the last one.
    last: Option<PlantId>,
}

impl Export<'_> {
    /// Copies the rows of the answer, ensures that none is missing at the end, and returns their number.
    fn copy(&mut self, answer: Response<Body>, progress: &ProgressBar) -> Result<u64, Broken> {
        let mut source = answer.into_body().into_reader();
        let header = self.sent.header();
        let mut start = vec![0; header.len()];
        source.read_exact(&mut start).map_err(Broken::off)?;
        if start != header.as_bytes() {
            return Err(anyhow!("it does not begin with {header:?}").into());
        }
        self.read(&start)?;
        self.output.write_all(self.format.header().as_bytes()).map_err(Broken::Output)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => self.take(&buffer[..length])?,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(Broken::off(cause)),
            }
            progress.set_position(self.plants);
        }
        self.check_end()?;
        self.copy_following()?;
        Ok(self.plants)
    }

    /// Checks and writes the next part.
    fn take(&mut self, part: &[u8]) -> Result<(), Broken> {
        if let Some(byte) = part.last() {
            self.ends_with_line = *byte == b'\n';
        }
        let plants = self.read(part)?;
        match self.format {
            // The rows stay as the server wrote them: a newer server may write more members of a plant.
            ExportFormat::Rows(_) => self.output.write_all(part),
            format => format.write_rows(plants.iter().map(NewPlant::borrowed), self.output),
        }
        .map_err(Broken::Output)
    }

    /// The plants of the rows that end in the next part.
    fn read(&mut self, part: &[u8]) -> anyhow::Result<Vec<NewPlant>> {
        let mut rows = Vec::new();
        self.rows.read(part, &mut rows)?;
        self.check(rows)
    }

    /// Checks that the answer does not end within a row.
    fn check_end(&mut self) -> anyhow::Result<()> {
        ensure!(self.ends_with_line, "it ends within a row, after {} whole ones", self.plants);
        let mut rows = Vec::new();
        self.rows.finish(&mut rows)?;
        self.check(rows).map(drop)
    }

    /// The plants of rows, each of which must have a greater id than the one before.
    fn check(&mut self, rows: Vec<ReadRow>) -> anyhow::Result<Vec<NewPlant>> {
        let mut plants = Vec::with_capacity(rows.len());
        for (line, plant) in rows {
            let plant = plant.map_err(|error| anyhow!("line {line} is no plant: {error}"))?;
            let id = plant.id();
            if let Some(last) = self.last.replace(id) {
                ensure!(last < id, "line {line} has the plant {id} behind the plant {last}");
            }
            self.plants += 1;
            plants.push(plant);
        }
        Ok(plants)
    }

    /// Asks the server which of the selected plants follow the last row: a proxy that speaks HTTP/1.0 to the server can hide
    /// a truncated answer. Plants after the last row mean one of two things. With a total, and fewer rows than that: the
    /// answer was cut, and the export fails. Otherwise they may be new, and are appended; without a total this also repairs a
    /// cut answer.
    fn copy_following(&mut self) -> Result<(), Broken> {
        loop {
            let following = plants_after(self.remote, self.selection, self.last);
            let following = following.context("its end cannot be checked")?;
            let Some(following_last) = following.last() else { return Ok(()) };
            if let Some(total) = self.total
                && self.plants < total
            {
                let [plants, total] = [self.plants, total].map(HumanCount);
                let cause = anyhow!(
                    "{plants} of {total} plants came, and more follow; a proxy that speaks HTTP/1.0 to plantd hides \
                     where an answer was cut: configure HTTP/1.1 there"
                );
                return Err(cause.into());
            }
            self.format
                .write_rows(following.iter().map(NewPlant::borrowed), self.output)
                .map_err(Broken::Output)?;
            self.plants += following.len() as u64;
            self.last = Some(following_last.id());
        }
    }
}

/// The next page that has plants; none if there are no more plants. A page over many plants that are deleted or not selected
/// is empty, and has a next one.
fn plants_after(
    remote: &Remote,
    selection: &Selection,
    last: Option<PlantId>,
) -> anyhow::Result<Vec<NewPlant>> {
    let mut pages = PlantPages::new(remote, selection, last);
    while let Some(page) = pages.next(PAGE_MAX_PLANTS).map_err(|stop| stop.into_parts().1)? {
        if !page.plants.is_empty() {
            return Ok(page.plants);
        }
    }
    Ok(Vec::new())
}
