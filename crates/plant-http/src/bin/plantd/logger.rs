//! The log, on standard error, as `RUST_LOG` says.

use std::env;

use env_logger::DEFAULT_FILTER_ENV;
use log::{Level, Log, Metadata, Record};

/// Where what we log ourselves comes from.
const OURS: [&str; 2] = ["plantd", "plant_"];

/// Of what others log, warnings and errors alone. Below that some tell whole heads of requests, with the
/// tokens in them, and no `RUST_LOG` should let a token into the log.
struct Logger(env_logger::Logger);

/// Logs from now on. `default` says what is logged where `RUST_LOG` does not.
pub(crate) fn start(default: &str) {
    // An empty variable says nothing, as where it is not there.
    let is_said = env::var_os(DEFAULT_FILTER_ENV).is_some_and(|filter| !filter.is_empty());
    let mut builder = env_logger::Builder::from_default_env();
    if !is_said {
        builder.parse_filters(default);
    }
    let logger = builder.build();
    log::set_max_level(logger.filter());
    // It fails where another one was set before, and there is none.
    let _ = log::set_boxed_logger(Box::new(Logger(logger)));
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
        self.0.flush();
    }
}
