//! The files of plantd: the data folder, and private files and sockets.

pub(crate) mod data_folder;
pub(crate) mod directory_entry;
pub(crate) mod followed_file;
pub(crate) mod json_file;
pub(crate) mod private_file;
pub(crate) mod tokens_file;
pub(crate) mod unix_socket;
