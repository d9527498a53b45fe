//! The harness of the black-box tests: it runs the real `plantd` and talks to it over real sockets.
//!
//! - [`TestServer`] is a running server with a folder of its own; [`Launch`] says how it is started.
//! - [`Process`] is one run of the program, whether it serves or not.
//! - [`Client`] sends requests as most clients do; [`Connection`] sends bytes as they stand.
//! - [`Authority`] issues certificates, and makes clients that trust it; [`ServerAddress`] is where a server listens.
//! - [`Answer`] is what either of them gets back. Each that a [`Client`] gets has to be one that the
//!   [`OpenapiDocument`] tells of.
//! - [`NewPlant`] is a plant as a test means it; [`Format`] is how many of them are written at once.
//! - [`edit_plants`] changes a database behind its server's back.
//! - [`Disturbance`] writes while a test looks at something else.
//! - [`history`] tells whether operations at the same time can have happened one after the other.
//! - [`Ledgers`] are what clients have written, to compare a store with; [`store_of`] is what it holds.
//! - [`disk`] is what a power cut leaves.
//! - [`Crowd`] is thousands of clients that create plants at the same time; [`LoadConnection`] is one of
//!   thousands of connections.
//! - [`Clock`] is one that a test sets.
//! - [`Nginx`] is a proxy in front of a server.
//! - [`SystemCalls`] is what strace saw the server do.
//! - [`Document`] is one of this repository; [`Shell`] runs the commands in it, and [`Transcript`] claims that
//!   they answer what it shows.
//! - [`store_is_sled`] tells a test where the plants are of the servers that it starts.
//! - [`SmallDisk`] is a disk that becomes full.
//! - [`Toolbox`] are the tools that `cargo xtask test` brings.
//! - [`token_command`] is `plantd token`.
//! - [`torture`] is what the tests of the product's promises have in common.
//! - [`repository`] is a file of this repository, [`copy_folder`] a folder with all that is in it.
//! - [`wait_for`] and [`wait_until`] wait for a condition, never for luck; [`at_once`] checks the rows of a table
//!   that wait at the same time.

#![forbid(unsafe_code)]

mod answer;
mod certificate;
mod client;
mod clock;
mod connection;
mod database;
mod deadline;
pub mod disk;
mod disturbance;
mod document;
mod first_run;
mod folder;
pub mod history;
mod launch;
mod ledger;
mod load;
mod nginx;
mod openapi;
mod plant;
mod process;
mod server;
mod server_address;
mod shell;
mod small_disk;
mod store;
mod stream;
mod system_calls;
mod token_command;
mod tokens_file;
mod toolbox;
pub mod torture;
mod transcript;

pub use answer::{Answer, Counts};
pub use certificate::{Authority, IssuedCertificate, chain_path, key_path, replace_file};
pub use client::Client;
pub use clock::Clock;
pub use connection::{Connection, chunk, create_request, raw_head, raw_request};
pub use database::{PlantRecords, edit_plants};
pub use deadline::{DEADLINE, at_once, wait_for, wait_until};
pub use disturbance::Disturbance;
pub use document::{Document, Part};
pub use first_run::{paste, shown_command};
pub use folder::{copy_folder, repository};
pub use launch::{
    CONFIGURATION, IO, Launch, TOKEN, UNPRIVILEGED, USAGE, copy_program, is_root, program,
};
pub use ledger::{Ledgers, Plants, TAGS, Told, plants_in, store_of};
pub use load::{
    Crowd, CrowdReport, Latencies, LoadAnswer, LoadConnection, LoadOutcome, raise_descriptor_limit,
    run_load,
};
pub use nginx::{Nginx, RequestBuffering, hold_port};
pub use openapi::{OpenapiDocument, members};
pub use plant::{Format, NewPlant, plant_body, replacement_body};
pub use process::Process;
pub use server::TestServer;
pub use server_address::ServerAddress;
pub use shell::Shell;
pub use small_disk::SmallDisk;
pub use store::store_is_sled;
pub use system_calls::{SystemCall, SystemCalls, Text};
pub use token_command::{create_token, revoke_token, token_command};
pub use tokens_file::write_tokens_file;
pub use toolbox::{Toolbox, run_tool};
pub use transcript::Transcript;
