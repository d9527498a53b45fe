//! The error of a command line that makes no sense.

/// What is wrong with the command line, and what would be right.
#[derive(Debug, thiserror::Error)]
#[error("error: {problem}\n\n{usage}")]
pub(crate) struct UsageError {
    problem: String,
    usage: &'static str,
}

impl UsageError {
    pub(crate) fn new(problem: impl Into<String>, usage: &'static str) -> Self {
        Self { problem: problem.into(), usage }
    }
}
