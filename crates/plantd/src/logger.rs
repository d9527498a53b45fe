//! The log on standard error, filtered by `RUST_LOG`.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

use anyhow::{Context as _, anyhow, ensure};
use env_logger::DEFAULT_FILTER_ENV;
use log::{Level, LevelFilter, Log, Metadata, Record};
use prometheus::IntCounter;

use crate::environment::variable;
use crate::log_line::{LineBuffer, LogFormat, is_about_request, lost_lines};
use crate::log_queue::{Importance, LogQueue};

/// The prefixes of the targets of our own crates.
const OURS: [&str; 2] = ["plantd", "plant_"];

/// Logs only warnings and errors of other crates, regardless of `RUST_LOG`: at lower levels, some of them log whole
/// request heads, including tokens.
struct Logger {
    filter: env_logger::Logger,
    format: LogFormat,
    queue: LogQueue,
}

/// The queue of the lines that are not written yet.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

thread_local! {
    /// The buffer of this thread, kept from line to line so that a line in text allocates nothing.
    static BUFFER: Cell<LineBuffer> = const { Cell::new(LineBuffer::new()) };
}

/// Whether the queue may drop the line of a record.
fn importance_of(record: &Record<'_>) -> Importance {
    let is_of_request = is_about_request(record.target());
    match record.level() {
        Level::Error => Importance::Kept,
        Level::Warn | Level::Info if !is_of_request => Importance::Kept,
        _ => Importance::Droppable,
    }
}

/// Starts the log. `default` is the filter without `RUST_LOG`. Fails when `RUST_LOG` is wrong.
pub(crate) fn start(default: &str, format: LogFormat) -> anyhow::Result<()> {
    let said = variable(DEFAULT_FILTER_ENV).unwrap_or_default();
    let said = said.to_str().with_context(|| format!("{DEFAULT_FILTER_ENV} is not UTF-8"))?;
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
    let notice = move |count| lost_lines(count, format);
    queue.start(io::stderr(), notice).context("cannot start the thread of the log")?;
    let mut builder = env_logger::Builder::from_default_env();
    if !is_said {
        builder.parse_filters(default);
    }
    let logger = Logger { filter: builder.build(), format, queue: queue.clone() };
    log::set_max_level(logger.filter.filter());
    // Fails only if a logger is already set, which is not the case here.
    let _ = log::set_boxed_logger(Box::new(logger));
    Ok(())
}

/// How many lines were dropped, since the start.
pub(crate) fn dropped_lines() -> IntCounter {
    QUEUE.get_or_init(LogQueue::default).dropped_lines()
}

/// Waits until all lines are written; gives up on a reader of standard error that has stalled.
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
        self.queue.push(buffer.line_of(record, self.format).as_bytes(), importance_of(record));
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
    }

    fn flush(&self) {
        flush();
    }
}
