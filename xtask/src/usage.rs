//! The error for a command line that cannot be understood.

/// What is wrong with the command line, and how to call the command instead.
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
