//! Three servers on one PostgreSQL. The tests disturb the servers, PostgreSQL and the network between them.
//!
//! After each disturbance the plants of a server are compared with the ledgers, and the tables with the plants: the
//! log of events leads to exactly these plants, with one event for each change. Followers, which read the events from the
//! servers throughout, must have exactly these plants, and must have seen exactly that log.

mod asynchronous;
mod failover;
mod fleet;
mod forgotten;
mod log;
mod outages;
mod proxy;
mod replica;
mod undurable;
