//! Clusters of PostgreSQL for tests: real ones, from the packages of the system, each in a temporary folder.
//!
//! - [`Cluster`] is a server with its own folder, which can be stopped, killed, started again and
//!   followed by a standby.
//! - [`Database`] is a database on any server; [`shared`] is one for all tests.
//! - [`fresh_schema_name`] is a schema of one test in a shared database.
//! - [`command`] runs a program of PostgreSQL, and [`program_folders`] are the folders of these programs.
//! - [`is_root`] says whether tests run as root; [`UNPRIVILEGED`] is the user in whose name a server runs then.
//! - [`wait_for`] and [`wait_until`] wait for a condition; [`at_once`] checks the rows of a table side by side.
//!
//! Commits reach the disk, as in production. Neither server nor folder outlives the process that started them,
//! however it ends. Everything here panics when the machine lacks a prerequisite.

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
