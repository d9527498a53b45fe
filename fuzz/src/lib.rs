//! Every parser of untrusted bytes in plantd, as a fuzz target.
//!
//! No target may panic, and a parsed value must stay the same when it is written and read again.

#![forbid(unsafe_code)]

mod http;
mod store;

/// A parser, and assertions that must hold for any bytes.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The name of the target and of its folder of inputs.
    pub name: &'static str,
    /// Parses the bytes, and panics when an assertion fails.
    pub check: fn(&[u8]),
}

/// All targets.
pub fn targets() -> impl Iterator<Item = FuzzTarget> {
    http::TARGETS.into_iter().chain(store::TARGETS)
}
