//! Clusters of PostgreSQL for tests: real ones, from the packages of the system, each in a temporary folder.
//!
//! - [`Cluster`] is a server with a folder of its own, which can be stopped, killed, started again and
//!   followed by a standby.
//! - [`Database`] is where a database is reached, whoever runs its server; [`shared`] is one for all tests.
//! - [`fresh_schema_name`] is a schema that nobody else has, so that many tests can share a database.
//! - [`command`] runs a program of PostgreSQL, and [`program_folders`] is where they lie.
//!
//! Everything is as a user has it: commits reach the disk. Neither server nor folder outlives the process
//! that started them, however that ends.

#![forbid(unsafe_code)]

mod cluster;
mod database;
mod deadline;
mod guardian;
mod postmaster;
mod programs;

pub use cluster::Cluster;
pub use database::{Database, SHARED_URL, fresh_schema_name, shared};
pub use programs::{command, program_folders};
