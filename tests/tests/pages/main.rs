//! What a browser gets: the page for people, the page of the API, and the headers for pages of other origins.

mod app;
mod browser;
mod browsers;
mod docs;
mod firefox;
mod pictures;
mod static_files;
