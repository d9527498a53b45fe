//! PostgreSQL as the store: the repository alone, and the program with its plants there.

mod batches;
mod checkpoints;
mod events;
mod harmed_tables;
mod postgres_command;
mod postgres_repository;
mod schema;
mod search;
mod snapshots;
mod two_servers;
mod user;
