//! What is installed: the Debian package and its service, the image, the manual pages and the completions.

mod debian;
mod image;
mod machine;
mod manual;
mod nightly;
mod service;
