//! What a browser gets: the page for people, the page of the API, and the headers for pages of other origins.

mod api_page;
mod app;
mod browser;
mod browsers;
mod firefox;
mod pictures;
mod static_files;
