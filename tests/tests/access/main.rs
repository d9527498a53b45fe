//! Access control: tokens, their scopes, rates and expiry. No secret leaks.

mod clock;
mod first_run;
mod rate_limit;
mod secrets;
mod shared_volume;
mod tokens;
