//! The options of PostgreSQL, and the commands for what a store leaves on disks: data folders, backups and archives.

pub(crate) mod archive;
pub(crate) mod postgres;
pub(crate) mod restore;
pub(crate) mod verify;
