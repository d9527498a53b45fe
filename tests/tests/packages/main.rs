//! What is installed: the Debian package and its service, the image, the manual pages and the completions.

mod debian;
mod help;
mod image;
mod machine;
mod manual;
mod service;
