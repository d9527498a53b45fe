//! The files that plantd keeps: the data folder, and files and sockets that are private to their owner.

pub(crate) mod data_folder;
pub(crate) mod directory_entry;
pub(crate) mod private_file;
pub(crate) mod tokens_file;
pub(crate) mod unix_socket;
