//! Why the copy of an answer is not whole.

use std::io;
use std::path::Path;

use crate::client::connection_problem;
use crate::client::remote::Remote;
use crate::exit::Stop;
use crate::transfer::output::{Output, STANDARD_OUTPUT, cannot_write};

/// Why the copy of an answer is not whole.
pub(super) enum Broken {
    Source(anyhow::Error),
    Output(io::Error),
}

impl From<anyhow::Error> for Broken {
    fn from(cause: anyhow::Error) -> Self {
        Self::Source(cause)
    }
}

impl Broken {
    /// The answer broke off.
    pub(super) fn off(cause: io::Error) -> Self {
        let cause = connection_problem::cause(ureq::Error::from(cause));
        Self::Source(cause.context("it broke off"))
    }

    /// The error of the command that was to copy `what`, such as an export, to a file.
    pub(super) fn into_stop(
        self,
        what: &str,
        remote: &Remote,
        file: &Path,
        output: &Output,
    ) -> Stop {
        Stop::Io(match self {
            Self::Source(cause) => {
                let advice = match file == Path::new(STANDARD_OUTPUT) {
                    true => "throw away the part that went to standard output, and ",
                    false if output.keeps_part() => "throw away the part that was written, and ",
                    false => "",
                };
                let url = remote.url();
                cause.context(format!("the {what} from {url} is not whole; {advice}run it again"))
            }
            Self::Output(cause) => anyhow::Error::from(cause).context(cannot_write(file)),
        })
    }
}
