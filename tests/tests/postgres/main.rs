//! PostgreSQL as the store: the repository on its own, and the program with its plants there.

mod events;
mod harmed_tables;
mod postgres_command;
mod postgres_repository;
mod schema;
mod search;
mod user;
