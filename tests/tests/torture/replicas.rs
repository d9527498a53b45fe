//! Three servers on one PostgreSQL. The tests disturb the servers, PostgreSQL and the network between them.
//!
//! After each disturbance, the plants of a server must match the ledgers, and the log of events in the tables must
//! lead to exactly these plants, with one event for each change. The followers read events from all servers
//! throughout: they must have exactly these plants, and must have seen exactly that log.

mod asynchronous;
mod failover;
mod fleet;
mod forgotten;
mod log;
mod outages;
mod proxy;
mod replica;
mod undurable;
