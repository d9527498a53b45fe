//! The harness of the black-box tests: it runs the real `plantd` and talks to it over real sockets.
//!
//! - [`TestServer`] is a running server with its own folder; [`Launch`] says how it starts, and [`Process`] is
//!   one run of the program, whether it serves or not.
//! - [`Client`] sends well-formed requests; [`Connection`] sends bytes. [`Answer`] is what both receive. Every
//!   answer to a [`Client`] must be in the [`OpenapiDocument`].
//! - [`Event`] is an event, and [`EventStream`] a stream of Server-Sent Events.
//! - [`NewPlant`] is a plant in a test; [`Format`] is a format for bodies with many plants.
//! - [`Authority`] issues certificates. [`Nginx`] is a proxy, [`FakeServer`] a server that fails, [`Script`] one
//!   with prepared answers, [`Terminal`] a pseudo-terminal, [`Clock`] a clock that a test sets, and [`SmallDisk`] a
//!   disk that becomes full.
//! - [`temporary_folder`] is a folder of a test; [`pipe_of`] and [`endless_pipe`] are what a command reads.
//! - [`token_command`] is `plantd token`. [`Scrape`] is what a server exports for Prometheus. [`CommandHelp`] is
//!   the help of a command.
//! - [`Document`] is a document of this repository; [`Transcript`] asserts that its commands answer as it shows.
//!   [`Toolbox`] holds the tools that `cargo xtask test` installs.
//! - For [`torture`]: [`Ledgers`] record what clients have written, [`store_of`] reads a store, [`Followers`] copy it by
//!   its events, [`SystemCalls`] parses an strace trace, [`disk`] simulates power cuts, [`history`] checks
//!   linearizability, and [`Crowd`] is thousands of clients.
//! - [`wait_for`] and [`wait_until`] wait for a condition; [`at_once`] checks the rows of a table concurrently.
//!
//! Everything here panics when an assertion fails, or when the machine lacks a prerequisite. A function that returns
//! `io::Error` fails when the server refuses or has closed the connection.

#![forbid(unsafe_code)]

mod answer;
mod certificate;
mod client;
mod clock;
mod connection;
mod delivery;
pub mod disk;
mod document;
mod event;
mod event_stream;
mod fake_server;
mod folder;
mod follower;
mod help;
pub mod history;
mod launch;
mod ledger;
mod load;
mod metrics;
mod nginx;
mod openapi;
mod pipe;
mod plant;
mod process;
mod server;
mod skip;
mod small_disk;
mod system_calls;
mod terminal;
mod tokens;
mod toolbox;
pub mod torture;
mod transcript;

pub use answer::{Answer, Counts};
pub use certificate::{Authority, IssuedCertificate, chain_path, key_path, replace_file};
pub use client::{Client, batch_body};
pub use clock::Clock;
pub use connection::{Connection, chunk, create_request, raw_head, raw_request};
pub use delivery::Delivery;
pub use document::{Document, Part};
pub use event::{Event, EventKind, all_events, assert_cursor_refused, change_in, newest_cursor};
pub use event_stream::{Block, EventStream, stream_request};
pub use fake_server::{FakeServer, Script, answer, answer_of};
pub use folder::{
    copy_folder, files_below, make_pipe, mode, names_in, read_line_of_pipe, repository, set_mode,
    temporary_folder,
};
pub use follower::{Followed, FollowedEvent, Followers, revision_of};
pub use help::{CommandHelp, default_of, printed, variables};
pub use launch::{
    CONFIGURATION, FINDINGS, IO, Launch, READER_GONE, TOKEN, USAGE, cargo, copy_program, program,
};
pub use ledger::{Ledgers, Plants, TAGS, WriteOutcome, counted, plants_in, store_of};
pub use load::{Crowd, CrowdReport, LoadConnection, LoadOutcome, raise_descriptor_limit, run_load};
pub use metrics::{Scrape, wait_until_archived};
pub use nginx::{Nginx, hold_port};
pub use openapi::{OpenapiDocument, members, pattern_of};
pub use pipe::{endless_pipe, pipe_of};
pub use plant::{Format, NewPlant, plant_body, replacement_body};
pub use process::{Process, ServerAddress};
pub use server::{TestServer, store_is_on_disk};
pub use skip::is_root_or_skipped;
pub use small_disk::SmallDisk;
pub use system_calls::{SystemCall, SystemCalls, Text};
pub use terminal::Terminal;
pub use test_postgres::{DEADLINE, UNPRIVILEGED, at_once, is_root, wait_for, wait_until};
pub use tokens::{
    create_token, paste, revoke_token, shown_command, token_command, write_tokens_file,
};
pub use toolbox::{Toolbox, run_tool};
pub use transcript::{Shell, Transcript};
