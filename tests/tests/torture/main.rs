//! What the world does to a server: each module does one thing to it again and again, and shows what
//! is promised to stay.
//!
//! The short form runs in `cargo xtask test`, the long one in `cargo xtask torture`.

mod damage;
mod disks;
mod drain;
mod faults;
mod kill;
mod load;
mod power;
mod races;
mod replicas;
mod start;

/// So few changes gather in memory that they are folded all the time: a fault, of the program that has fault
/// points.
const FEW_CHANGES_IN_MEMORY: &str = "changes-in-memory=return(64)";

/// So many are they.
const CHANGES_IN_MEMORY: i64 = 64;
