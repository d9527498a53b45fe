//! Access control: tokens, their scopes, rates and expiry. No secret leaks.

mod clock;
mod first_run;
mod other_users;
mod rate_limit;
mod secrets;
mod shared_volume;
mod token_command;
mod tokens;

use plantd_tests::Launch;

/// A launch that accepts only the tokens of its file.
fn launch() -> Launch {
    Launch::new().without_environment("PLANTD_TOKEN")
}
