//! The log on standard error, filtered by `RUST_LOG`.

use std::env;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow, ensure};
use env_logger::DEFAULT_FILTER_ENV;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// The prefixes of the targets of our own crates.
const OURS: [&str; 2] = ["plantd", "plant_"];

/// Lines have no date from this long before the end of the year 9999, so that no date changes to the year 10000 while a
/// line is written.
const DATE_MARGIN: Duration = Duration::from_secs(1);

/// Logs only warnings and errors of other crates, regardless of `RUST_LOG`: at lower levels, some of them log whole
/// request heads, including tokens.
struct Logger {
    dated: env_logger::Logger,
    /// The line format for times that cannot be written as dates. There, `dated` would panic, even while it logs a
    /// panic.
    undated: env_logger::Logger,
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
    let build = |has_date: bool| {
        let mut builder = env_logger::Builder::from_default_env();
        if !is_said {
            builder.parse_filters(default);
        }
        if !has_date {
            builder.format_timestamp(None);
        }
        builder.build()
    };
    let logger = Logger { dated: build(true), undated: build(false) };
    log::set_max_level(logger.dated.filter());
    // Fails only if a logger is already set, which is not the case here.
    let _ = log::set_boxed_logger(Box::new(logger));
    Ok(())
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

/// Whether every library can write the time as a date: in the years 1970 to 9999.
fn is_date(time: SystemTime) -> bool {
    time >= SystemTime::UNIX_EPOCH && jiff::Timestamp::try_from(time).is_ok()
}

impl Logger {
    fn in_force(&self) -> &env_logger::Logger {
        let is_dated = SystemTime::now().checked_add(DATE_MARGIN).is_some_and(is_date);
        if is_dated { &self.dated } else { &self.undated }
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = || OURS.iter().any(|name| metadata.target().starts_with(name));
        (metadata.level() <= Level::Warn || is_ours()) && self.dated.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.in_force().log(record);
        }
    }

    fn flush(&self) {
        self.in_force().flush();
    }
}
