//! Why a command fails, and its exit code.

use std::io;

/// The command did its work, and found faulty data.
const FINDINGS: u8 = 1;
/// The command line is wrong. (The numbers from here on are those of BSD's `sysexits.h`.)
pub(crate) const USAGE: u8 = 64;
/// A folder, a file, a port or a server cannot be used, or the store failed while serving.
const IO: u8 = 74;
/// The server has ended, and cut off requests.
const CUT_OFF: u8 = 75;
/// The environment or a file holds a wrong value.
pub(crate) const CONFIGURATION: u8 = 78;

/// Why a command failed, with the error for the user. Each reason has an exit code of its own.
#[derive(Debug)]
pub(crate) enum Stop {
    Findings(anyhow::Error),
    Usage(anyhow::Error),
    Io(anyhow::Error),
    CutOff(anyhow::Error),
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

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Findings(_) => FINDINGS,
            Self::Usage(_) => USAGE,
            Self::Io(_) => IO,
            Self::CutOff(_) => CUT_OFF,
            Self::Configuration(_) => CONFIGURATION,
        }
    }

    pub(crate) fn into_error(self) -> anyhow::Error {
        let (Self::Findings(error)
        | Self::Usage(error)
        | Self::Io(error)
        | Self::CutOff(error)
        | Self::Configuration(error)) = self;
        error
    }
}
