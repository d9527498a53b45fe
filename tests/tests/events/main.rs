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

/// After this time without an event, a stream has a bookmark.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Creates plants with these ids.
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

/// The events of all pages, from the one with this query to the first empty one.
#[track_caller]
fn all_events(client: &Client, query: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut page = page(client, query);
    while !page.events().is_empty() {
        events.extend(page.events());
        page = client.get(&page.next_events());
    }
    events
}

/// The cursor at this moment.
#[track_caller]
fn now(client: &Client) -> String {
    cursor_of(&page(client, "after=now").next_events())
}

/// The cursor of a link to events.
#[track_caller]
fn cursor_of(link: &str) -> String {
    let (_, query) = link.split_once('?').expect("a query");
    let after = query.split('&').find_map(|pair| pair.strip_prefix("after="));
    after.unwrap_or_else(|| panic!("no cursor: {link}")).to_owned()
}

/// What happened to which plant, for each event.
fn changes(events: &[Event]) -> Vec<(&str, i64)> {
    events.iter().map(Event::change).collect()
}
