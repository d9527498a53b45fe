//! What operators watch: metrics, alerts and the dashboard.

mod archive;
mod listener;
mod scrape;
