//! Clusters of PostgreSQL for tests: real ones, from the packages of the system, each in a temporary folder.
//!
//! - [`Cluster`] is a server with its own folder; a test can stop, kill and restart it, and give it a standby.
//! - [`Database`] is a database on any server; [`shared`] is one for all tests.
//! - [`fresh_schema_name`] is a schema of one test in a shared database.
//! - [`command`] runs a program of PostgreSQL, and [`program_folders`] are the folders of these programs.
//! - [`is_root`] says whether tests run as root; servers then run as [`UNPRIVILEGED`].
//! - [`wait_for`] and [`wait_until`] wait for a condition; [`at_once`] checks the rows of a table concurrently.
//!
//! Commits reach the disk, as in production. No server and no folder outlives the process that made it. Everything
//! here panics when the machine lacks a prerequisite.

#![forbid(unsafe_code)]

mod cluster;
mod database;
mod guardian;
mod programs;
mod wait;

pub use cluster::Cluster;
pub use database::{Database, SHARED_URL, fresh_schema_name, shared};
pub use programs::{UNPRIVILEGED, command, is_root, program_folders};
pub use wait::{DEADLINE, at_once, wait_for, wait_until};
