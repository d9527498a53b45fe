//! Kills while the server starts.
