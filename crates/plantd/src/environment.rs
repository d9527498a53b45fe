//! What the environment says beside the values of options.

/// The variable with a token: one more of the server's, with every scope, or the token that a client sends.
pub(crate) const TOKEN_VARIABLE: &str = "PLANTD_TOKEN";
