//! `GET /events`: pages, long polls and streams.

mod clients;
mod cursors;
mod followers;
mod guide;
mod handshake;
mod long_poll;
mod pages;
mod streams;
mod tokens;

use std::time::Duration;

use plantd_tests::{Answer, Client, Event};

/// A stream without events gets a bookmark after this time.
const HEARTBEAT: Duration = Duration::from_secs(15);

#[track_caller]
fn create_all(client: &Client, ids: impl IntoIterator<Item = i64>) {
    for id in ids {
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
    }
}

/// A page of events. The query may be empty.
#[track_caller]
fn page(client: &Client, query: &str) -> Answer {
    client.get(&format!("/events?{query}"))
}

/// What happened to which plant, for each event.
fn changes(events: &[Event]) -> Vec<(&str, i64)> {
    events.iter().map(Event::change).collect()
}
