//! Every parser of untrusted bytes in plantd, as a fuzz target.
//!
//! No target may panic, and a parsed value must stay the same when it is written and read again.

#![forbid(unsafe_code)]

mod http;
mod store;

/// A parser, and the assertions that must hold for any bytes.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The name of the target and of its folder of inputs.
    pub name: &'static str,
    /// Reads the bytes, and panics when something does not hold.
    pub check: fn(&[u8]),
}

/// All targets.
pub fn targets() -> impl Iterator<Item = FuzzTarget> {
    http::TARGETS.into_iter().chain(store::TARGETS)
}
