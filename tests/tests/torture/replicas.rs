//! Three servers on one PostgreSQL, and what happens to them, to PostgreSQL and to what is between them.
//!
//! After each of it the plants are compared with what the clients know, through a server, and with the
//! tables: the log of events leads to just the plants that are there, and has one event for each change that
//! was made. One who reads the events all the while has seen exactly that log.

mod cluster_crash;
mod ended_session;
mod failover;
mod fleet;
mod follower;
mod forgotten;
mod log;
mod network;
mod proxy;
mod replica;
mod server_kill;

use std::time::Duration;

/// How long it may take until all servers take writes again, from when PostgreSQL does.
const RETURN_DEADLINE: Duration = Duration::from_secs(10);
