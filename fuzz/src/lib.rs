//! Fuzz targets: everything in plantd that reads bytes from outside. No target may panic, whatever the bytes are.

#![forbid(unsafe_code)]

mod http;

use plant_store::fuzzing::FuzzTarget;

/// Every target. The folder of the same name in `corpus` has its inputs.
pub fn targets() -> impl Iterator<Item = FuzzTarget> {
    http::TARGETS.into_iter().chain(plant_store::fuzzing::TARGETS)
}
