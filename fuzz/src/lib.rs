//! Everything in plantd that reads bytes from outside, as fuzz targets.
//!
//! No target may panic, and what was read must stay the same when it is written and read again.

#![forbid(unsafe_code)]

mod http;
mod store;

/// A reader of bytes, and what must hold whatever they are.
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
