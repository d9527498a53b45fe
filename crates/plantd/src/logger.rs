//! The log on standard error, filtered by `RUST_LOG`.

use std::env;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow, ensure};
use env_logger::fmt::Formatter;
use env_logger::{DEFAULT_FILTER_ENV, Target, WriteStyle};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::log_queue::{Importance, LogQueue};

/// The prefixes of the targets of our own crates.
const OURS: [&str; 2] = ["plantd", "plant_"];

/// The prefixes of the targets of lines about single requests.
const OF_REQUESTS: [&str; 2] = ["plantd::access", "plantd::audit"];

/// Lines have no date from this long before the end of the year 9999, so that no date changes to the year 10000 while a
/// line is written.
const DATE_MARGIN: Duration = Duration::from_secs(1);

/// Logs only warnings and errors of other crates, regardless of `RUST_LOG`: at lower levels, some of them log whole
/// request heads, including tokens.
struct Logger(env_logger::Logger);

/// The lines that are not written yet.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Where env_logger writes its lines. The first byte of a line, which [`write_line`] has put there, is no part of it.
struct Pipe(LogQueue);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some((importance, line)) = bytes.split_first() {
            let is_kept = *importance == Importance::Kept as u8;
            let importance = if is_kept { Importance::Kept } else { Importance::Droppable };
            self.0.push(line, importance);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line behind a byte that says whether the queue may drop it. env_logger keeps its buffer from line to line, so
/// this allocates nothing.
fn write_line(line: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let (level, target) = (record.level(), record.target());
    let is_of_request = OF_REQUESTS.iter().any(|prefix| target.starts_with(prefix));
    let is_droppable = is_of_request && level > Level::Error || level > Level::Info;
    let importance = if is_droppable { Importance::Droppable } else { Importance::Kept };
    line.write_all(&[importance as u8, b'['])?;
    // A time that is no date would panic, even while a panic is logged.
    if now_is_date() {
        write!(line, "{} ", line.timestamp())?;
    }
    writeln!(line, "{level:<5} {target}] {}", record.args())
}

/// Starts the log. `default` is the filter without `RUST_LOG`. Fails when `RUST_LOG` is wrong.
pub(crate) fn start(default: &str) -> anyhow::Result<()> {
    let said = env::var_os(DEFAULT_FILTER_ENV).unwrap_or_default();
    let said = said.to_str().with_context(|| format!("{DEFAULT_FILTER_ENV} is not UTF-8"))?;
    // An empty variable counts as unset.
    let is_said = said.split(',').any(|directive| !directive.trim().is_empty());
    if is_said {
        check(said).with_context(|| {
            format!(
                "{DEFAULT_FILTER_ENV} cannot be used; give a level (off, error, warn, info, debug, trace), or \
                 TARGET=LEVEL, with commas between several, such as info,plantd::access=off"
            )
        })?;
    }
    let queue = QUEUE.get_or_init(LogQueue::default);
    queue.start(io::stderr(), lost_lines).context("cannot start the thread of the log")?;
    let mut builder = env_logger::Builder::from_default_env();
    if !is_said {
        builder.parse_filters(default);
    }
    builder.target(Target::Pipe(Box::new(Pipe(queue.clone())))).write_style(WriteStyle::Never);
    let logger = Logger(builder.format(write_line).build());
    log::set_max_level(logger.0.filter());
    // Fails only if a logger is already set, which is not the case here.
    let _ = log::set_boxed_logger(Box::new(logger));
    Ok(())
}

/// The line for a number of lines that were dropped.
fn lost_lines(count: u64) -> String {
    let dated = now_is_date().then(jiff::Timestamp::now);
    let dated = dated.map_or_else(String::new, |now| format!("{now:.0} "));
    format!(
        "[{dated}{:<5} plantd::log] {count} lines were dropped: standard error is read too slowly\n",
        Level::Warn
    )
}

/// Waits until all lines are written, but not forever for a reader that has stalled.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush();
    }
}

/// To env_logger, a name without a level is a target that is logged alone. So a mistyped level would turn the log off: here, a
/// name without a level must be one of our targets.
fn check(filter: &str) -> anyhow::Result<()> {
    env_filter::Builder::new().try_parse(filter).map_err(|error| anyhow!("{error}"))?;
    let directives = filter.split('/').next().unwrap_or_default().split(',').map(str::trim);
    for name in directives.filter(|name| !name.is_empty() && !name.contains('=')) {
        let is_ours = OURS.iter().any(|ours| name.starts_with(ours));
        ensure!(
            is_ours || name.parse::<LevelFilter>().is_ok(),
            "{name:?} is neither a level nor a target of plantd"
        );
    }
    Ok(())
}

/// The code that dates answers and checks certificates panics when the clock is out of its range.
pub(crate) fn check_clock() -> anyhow::Result<()> {
    ensure!(
        is_date(SystemTime::now()),
        "the clock of this machine is before 1970 or after 9999; set the clock"
    );
    Ok(())
}

/// Whether the time is a date, and still is one when a line is written.
fn now_is_date() -> bool {
    SystemTime::now().checked_add(DATE_MARGIN).is_some_and(is_date)
}

/// Whether every library can write the time as a date: in the years 1970 to 9999.
fn is_date(time: SystemTime) -> bool {
    time >= SystemTime::UNIX_EPOCH && jiff::Timestamp::try_from(time).is_ok()
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = || OURS.iter().any(|name| metadata.target().starts_with(name));
        (metadata.level() <= Level::Warn || is_ours()) && self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.log(record);
        }
    }

    fn flush(&self) {
        flush();
    }
}
