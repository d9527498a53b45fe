//! What commands print: results on standard output, and messages on standard error.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};

use anyhow::Context as _;

/// The error for standard output that cannot be written.
pub(crate) const CANNOT_PRINT: &str = "cannot write to standard output";

/// Prints what a command is to show on standard output.
pub(crate) fn print(text: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let printed = stdout.write_all(text).and_then(|()| stdout.flush());
    printed.map_err(ReaderGone::or).context(CANNOT_PRINT)
}

/// Prints a line for the user on standard error. A failure to print it is ignored.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The reader of the output, such as `head`, ended first. That is no mistake, so the command ends without a message.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl ReaderGone {
    /// The error of a failed write, which is this one for a pipe without a reader.
    pub(crate) fn or(cause: io::Error) -> io::Error {
        match cause.kind() {
            ErrorKind::BrokenPipe => Self.into(),
            _ => cause,
        }
    }

    /// Whether this is why a command failed.
    pub(crate) fn is_cause_of(error: &anyhow::Error) -> bool {
        let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
        causes.any(|cause| cause.get_ref().is_some_and(|cause| cause.is::<Self>()))
    }
}

impl From<ReaderGone> for io::Error {
    fn from(gone: ReaderGone) -> Self {
        Self::new(ErrorKind::BrokenPipe, gone)
    }
}

impl fmt::Display for ReaderGone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("its reader has ended")
    }
}

impl Error for ReaderGone {}
