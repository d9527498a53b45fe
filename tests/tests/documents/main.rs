//! The documents of the repository: their commands work as they are shown, and their tables are right.

mod api_guide;
mod operations;
