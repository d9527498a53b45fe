//! The harness of the black-box tests: it runs the real `plantd` and talks to it over real sockets.
//!
//! - [`TestServer`] is a running server with a folder of its own; [`Launch`] says how it is started.
//! - [`Process`] is one run of the program, whether it serves or not.
//! - [`Client`] sends requests as most clients do; [`Connection`] sends bytes as they stand.
//! - [`Answer`] is what either of them gets back.
//! - [`SystemCalls`] is what strace saw the server do.
//! - [`wait_for`] and [`wait_until`] wait for a condition, never for luck.

mod answer;
mod client;
mod connection;
mod deadline;
mod launch;
mod process;
mod server;
mod system_calls;

pub use answer::Answer;
pub use client::{Client, plant_body};
pub use connection::{Connection, create_request};
pub use deadline::{DEADLINE, wait_for, wait_until};
pub use launch::{Launch, TOKEN};
pub use process::Process;
pub use server::TestServer;
pub use system_calls::{SystemCall, SystemCalls};
