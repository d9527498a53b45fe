//! The documents of the repository: their commands work as shown, and their tables match the program.

mod api_guide;
mod contrib;
mod guide;
mod links;
mod operations;
mod readme;
mod reference;
mod written;
