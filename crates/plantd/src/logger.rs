//! The log on standard error, filtered by `RUST_LOG`.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{env, io};

use anyhow::{Context as _, anyhow, ensure};
use env_logger::DEFAULT_FILTER_ENV;
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::log_queue::{Importance, LogQueue};

/// The prefixes of the targets of our own crates.
const OURS: [&str; 2] = ["plantd", "plant_"];

/// The prefixes of the targets of lines about single requests.
const OF_REQUESTS: [&str; 2] = ["plantd::access", "plantd::audit"];

/// Logs only warnings and errors of other crates, regardless of `RUST_LOG`: at lower levels, some of them log whole
/// request heads, including tokens.
struct Logger {
    filter: env_logger::Logger,
    queue: LogQueue,
}

/// The lines that are not written yet.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

thread_local! {
    /// Kept from line to line, so that a line allocates nothing.
    static BUFFER: Cell<Buffer> = const { Cell::new(Buffer::new()) };
}

/// A line in progress, and the date of the last one.
#[derive(Default)]
struct Buffer {
    line: String,
    date: String,
    /// The second of the date, since 1970. Many lines have the same.
    second: Option<u64>,
}

impl Buffer {
    const fn new() -> Self {
        Self { line: String::new(), date: String::new(), second: None }
    }

    /// The text of a record, with a line feed at the end.
    fn line_of(&mut self, record: &Record<'_>) -> &str {
        let second = SystemTime::UNIX_EPOCH.elapsed().ok().map(|time| time.as_secs());
        if second != self.second {
            self.second = second;
            self.date = dated();
        }
        self.line.clear();
        let (date, level, target) = (&self.date, record.level(), record.target());
        // An argument that fails to write itself cuts its line short.
        let _ = write!(self.line, "[{date}{level:<5} {target}] {}", record.args());
        self.line.push('\n');
        &self.line
    }
}

/// Whether the queue may drop the line of a record.
fn importance_of(record: &Record<'_>) -> Importance {
    let is_of_request = OF_REQUESTS.iter().any(|prefix| record.target().starts_with(prefix));
    match record.level() {
        Level::Error => Importance::Kept,
        Level::Warn | Level::Info if !is_of_request => Importance::Kept,
        _ => Importance::Droppable,
    }
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
    let logger = Logger { filter: builder.build(), queue: queue.clone() };
    log::set_max_level(logger.filter.filter());
    // Fails only if a logger is already set, which is not the case here.
    let _ = log::set_boxed_logger(Box::new(logger));
    Ok(())
}

/// The line for a number of lines that were dropped.
fn lost_lines(count: u64) -> String {
    format!(
        "[{}{:<5} plantd::log] {count} lines were dropped: standard error did not take them in time\n",
        dated(),
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
        date_of(SystemTime::now()).is_some(),
        "the clock of this machine is before 1970 or after 9999; set the clock"
    );
    Ok(())
}

/// Now, with a space behind. Empty if the clock shows no date: writing it would panic.
fn dated() -> String {
    date_of(SystemTime::now()).map_or_else(String::new, |now| format!("{now:.0} "))
}

/// The time as a date that every library can write: one in the years 1970 to 9999.
fn date_of(time: SystemTime) -> Option<jiff::Timestamp> {
    let date = jiff::Timestamp::try_from(time).ok()?;
    (date >= jiff::Timestamp::UNIX_EPOCH).then_some(date)
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = || OURS.iter().any(|name| metadata.target().starts_with(name));
        (metadata.level() <= Level::Warn || is_ours()) && self.filter.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) || !self.filter.matches(record) {
            return;
        }
        // The buffer is absent while an argument logs as it writes itself, and when the thread ends.
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        self.queue.push(buffer.line_of(record).as_bytes(), importance_of(record));
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
    }

    fn flush(&self) {
        flush();
    }
}
