//! Why a command fails, and its exit code.

use std::io;

const FINDINGS: u8 = 1;
pub(crate) const USAGE: u8 = 64;
const IO: u8 = 74;
const CUT_OFF: u8 = 75;
pub(crate) const CONFIGURATION: u8 = 78;
/// What a shell shows for a command that SIGPIPE (13) ends.
pub(crate) const READER_GONE: u8 = 128 + 13;

/// Every exit code, and when a command ends with it.
const MEANINGS: [(u8, &str); 7] = [
    (0, "the command has succeeded, or a signal shut the server down gracefully"),
    (FINDINGS, "the command found faulty data, or not what it was asked for"),
    (USAGE, "the command line is wrong"),
    (IO, "a folder, file, port, server or database cannot be used, or has failed"),
    (CUT_OFF, "the drain of the server timed out and cut off connections"),
    (CONFIGURATION, "the environment, a file, a token or a passed socket has an invalid value"),
    (READER_GONE, "the reader of standard output, such as head, ended first"),
];

/// The list of exit codes in the help and the manual page.
pub(crate) fn list() -> String {
    let line = |(code, meaning): &(u8, &str)| format!("\n  {code:>3}  {meaning}");
    format!("Exit codes:{}", MEANINGS.iter().map(line).collect::<String>())
}

/// Why a command failed, with the error for the user. Each reason has its own exit code. All codes but that of
/// [`Self::Findings`] come from BSD's `sysexits.h`.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The command did its work, and found faulty data, or not what it was asked for.
    Findings(anyhow::Error),
    /// The command line is wrong.
    Usage(anyhow::Error),
    /// A folder, a file, a port or a server cannot be used, or the store failed while serving.
    Io(anyhow::Error),
    /// The drain of the server timed out, and cut off connections.
    CutOff(anyhow::Error),
    /// The environment or a file holds a wrong value.
    Configuration(anyhow::Error),
}

/// An error without another reason is one of a file, a socket or a server.
impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Io(error.into())
    }
}

impl Stop {
    /// A file that cannot be read is [`Stop::Io`]; a file with wrong content is [`Stop::Configuration`].
    pub(crate) fn of_file(error: anyhow::Error) -> Self {
        if error.chain().any(|cause| cause.is::<io::Error>()) {
            Self::Io(error)
        } else {
            Self::Configuration(error)
        }
    }

    /// The exit code and the error.
    pub(crate) fn into_parts(self) -> (u8, anyhow::Error) {
        match self {
            Self::Findings(error) => (FINDINGS, error),
            Self::Usage(error) => (USAGE, error),
            Self::Io(error) => (IO, error),
            Self::CutOff(error) => (CUT_OFF, error),
            Self::Configuration(error) => (CONFIGURATION, error),
        }
    }
}
