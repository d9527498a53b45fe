//! What a browser gets: the page for people, the page of the API, and the headers for pages of other origins.

mod api_page;
mod browsers;
mod files;
mod plants_page;
