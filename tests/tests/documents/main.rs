//! The documents of the repository: their commands work as shown, and their tables match the program.

mod api_guide;
mod contrib;
mod guide;
mod operations;
mod readme;
mod reference;
