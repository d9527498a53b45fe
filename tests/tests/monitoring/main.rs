//! What operators watch: the metrics, the alerts and the dashboard for them.

mod archive;
mod listener;
mod scrape;
