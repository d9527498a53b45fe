//! Environment variables that are not options.

/// Holds a token: one more token of a server, with every scope, or the token that a client sends.
pub(crate) const TOKEN_VARIABLE: &str = "PLANTD_TOKEN";
