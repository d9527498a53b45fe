//! The commands that use a server: what they print, their messages and their exit codes. `transfer_commands` has the plants
//! that an import and an export move.

mod batch;
mod events;
mod every_command;
mod follow;
mod list;
mod whole_transfers;

const JSON: &str = "application/json";
