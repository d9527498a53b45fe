//! The repository on disk: the contract, crashes, damage, searches, histories, backups and archives.

mod backups;
mod before_histories;
#[path = "../common/mod.rs"]
mod common;
mod folder;
mod histories;
mod model;
mod search;
mod sled;
