//! Why a command fails, and its exit code.

use std::io;

pub(crate) const USAGE: u8 = 64;
pub(crate) const CONFIGURATION: u8 = 78;

/// Why a command failed, with the error for the user. Each reason has an exit code of its own, from BSD's `sysexits.h` except
/// for the first.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The command did its work, and found faulty data, or not what it was asked for.
    Findings(anyhow::Error),
    /// The command line is wrong.
    Usage(anyhow::Error),
    /// A folder, a file, a port or a server cannot be used, or the store failed while serving.
    Io(anyhow::Error),
    /// The server has ended, and cut off requests.
    CutOff(anyhow::Error),
    /// The environment or a file holds a wrong value.
    Configuration(anyhow::Error),
}

/// Most failures are of files, sockets and servers.
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
            Self::Findings(error) => (1, error),
            Self::Usage(error) => (USAGE, error),
            Self::Io(error) => (74, error),
            Self::CutOff(error) => (75, error),
            Self::Configuration(error) => (CONFIGURATION, error),
        }
    }
}
