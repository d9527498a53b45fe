//! The archive of the write-ahead log: how it is named on the command line, and `plantd archive`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use indicatif::{DecimalBytes, HumanCount};
use jiff::Timestamp;
use plant_store::{
    BackupReader, LeftOut, OpenError, PointInTime, Position, RestoreError, Until, prune_archive,
};

use crate::exit::Stop;
use crate::option_value::duration;
use crate::print::print;

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// The archive with the changes after a backup, and the moment up to which they count.
#[derive(Clone, Debug, Args)]
pub(crate) struct ArchiveOptions {
    /// The archive with the changes after the backup (plantd serve --archive)
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,

    /// The moment up to which changes count: a time, such as 2027-01-02T03:04:05Z, or the cursor of an event, such as 2048-9f3a1c
    /// [default: the end of the archive]
    #[arg(long, value_name = "TIME|CURSOR", requires = "archive", value_parser = until)]
    until: Option<Until>,
}

impl ArchiveOptions {
    pub(crate) fn moment(&self) -> Option<PointInTime> {
        let mut moment = PointInTime::newest(self.archive.clone()?);
        moment.until = self.until;
        Some(moment)
    }
}

fn until(text: &str) -> anyhow::Result<Until> {
    if let Ok(cursor) = text.parse() {
        return Ok(Until::Cursor(cursor));
    }
    let time: Result<Timestamp, _> = text.parse();
    time.map(|time| Until::Time(time.into())).map_err(|_| {
        anyhow!(
            "this is neither a time with its offset up to {:.0}, such as 2027-01-02T03:04:05Z, nor the cursor of an \
             event, such as 2048-9f3a1c",
            Timestamp::MAX
        )
    })
}

/// Opens a backup, or reads one from standard input.
pub(crate) fn open_backup(file: &Path) -> Result<BackupReader, OpenError> {
    if file == Path::new(STANDARD_INPUT) {
        BackupReader::new(io::stdin(), "standard input".to_owned())
    } else {
        BackupReader::open(file)
    }
}

/// `the change 2048-9f3a1c of 2027-01-02T03:04:05.678Z`. The position before the first change has no time.
pub(crate) fn describe(position: &Position) -> String {
    let time = Timestamp::try_from(position.at).ok().filter(|time| *time > Timestamp::UNIX_EPOCH);
    let time = time.map_or_else(String::new, |time| format!(" of {time:.3}"));
    format!("the change {}{time}", position.cursor)
}

/// Says how many changes of the archive are later than the moment, if any are.
pub(crate) fn describe_left_out(left_out: &LeftOut) -> Option<String> {
    let LeftOut { changes, not_later } = *left_out;
    let (of_all, early) = (HumanCount(changes), HumanCount(not_later));
    match (changes, not_later) {
        (0, _) => None,
        (_, 0) => Some(format!("later changes in the archive, which were left out: {of_all}")),
        _ => Some(format!(
            "later changes in the archive, which were left out: {of_all}; the times of {early} of them are not after \
             --until, because the clock was set back: to include these, give the cursor of an event with --until"
        )),
    }
}

/// Damage is a finding; anything else is a file or a folder that cannot be used.
pub(crate) fn stop_of_open(error: OpenError) -> Stop {
    match error {
        OpenError::Damaged(_) => Stop::Findings(error.into()),
        OpenError::Unusable(_) => Stop::Io(error.into()),
    }
}

/// Damage and a gap are findings; a moment that the archive does not have is a wrong command line.
pub(crate) fn stop_of_restore(error: RestoreError) -> Stop {
    match error {
        RestoreError::NotWhole { whole_up_to, .. } => {
            let (cursor, change) = (whole_up_to.cursor, describe(&whole_up_to));
            Stop::Findings(anyhow!("{error}; to restore up to {change}, add --until {cursor}"))
        }
        RestoreError::Damaged(_) => Stop::Findings(error.into()),
        RestoreError::NoSuchMoment(_) => Stop::Usage(anyhow!("{error} (--until)")),
        RestoreError::Unusable(_) => Stop::Io(error.into()),
    }
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Remove old changes; a server may be writing to the archive
    Prune(PruneOptions),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct PruneOptions {
    /// The archive
    #[arg(value_name = "DIR")]
    archive: PathBuf,

    /// Keep every change that a backup of this age or a younger one needs, such as 7d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    keep: Duration,
}

pub(crate) fn run(command: &ArchiveCommand) -> Result<(), Stop> {
    let ArchiveCommand::Prune(PruneOptions { archive, keep }) = command;
    let pruned = prune_archive(archive, *keep)?;
    let (pieces, bytes) = (HumanCount(pruned.pieces), DecimalBytes(pruned.bytes));
    Ok(print(format!("removed {pieces} pieces ({bytes})\n").as_bytes())?)
}
