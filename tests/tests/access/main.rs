//! Who may do what: tokens, their scopes, rates and ends, and that no secret is told.

mod clock;
mod rate_limit;
mod secrets;
mod tokens;
