//! Events in a test, and how a test reads them.

use serde_json::Value;

use crate::client::Client;
use crate::ledger::Plants;
use crate::plant::{NewPlant, plant_json};

/// What happened to a plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The plant was created.
    Created,
    /// The plant was changed.
    Updated,
    /// The plant was deleted.
    Deleted,
}

impl EventKind {
    #[track_caller]
    fn named(name: &str) -> Self {
        let mut kinds = [Self::Created, Self::Updated, Self::Deleted].into_iter();
        kinds.find(|kind| kind.name() == name).unwrap_or_else(|| panic!("no kind: {name}"))
    }

    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }
}

/// An event as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The cursor of a client that has read up to this event.
    pub cursor: String,
    /// What happened.
    pub kind: EventKind,
    /// The plant that it happened to.
    pub id: i64,
    /// When it happened.
    pub at: String,
    /// The name of the token that did it.
    pub by: Option<String>,
    /// The current name and tag of the plant, if the event shows the plant.
    pub plant: Option<(String, Option<String>)>,
}

impl Event {
    /// Reads exactly the shape of an event.
    #[track_caller]
    pub fn from_json(value: &Value) -> Self {
        let text = |value: &Value, name: &str| {
            let text = value[name].as_str().map(str::to_owned);
            text.unwrap_or_else(|| panic!("no {name}: {value}"))
        };
        let event = Self {
            cursor: text(value, "cursor"),
            kind: EventKind::named(&text(value, "kind")),
            id: value["id"].as_i64().unwrap_or_else(|| panic!("no id: {value}")),
            at: text(value, "at"),
            by: value.get("by").map(|_| text(value, "by")),
            plant: value
                .get("plant")
                .map(|plant| (text(plant, "name"), plant["tag"].as_str().map(str::to_owned))),
        };
        let mut shape = serde_json::json!({
            "cursor": event.cursor, "kind": event.kind.name(), "id": event.id, "at": event.at,
        });
        if let Some(by) = &event.by {
            shape["by"] = by.as_str().into();
        }
        if let Some((name, tag)) = &event.plant {
            shape["plant"] = plant_json(None, name, tag.as_deref());
        }
        assert_eq!(shape, *value, "not the shape of an event");
        event
    }

    /// What happened to which plant.
    pub fn change(&self) -> (&'static str, i64) {
        (self.kind.name(), self.id)
    }

    /// Updates a copy of the plants. The event must have been requested with `plants=true`.
    pub fn apply_to(&self, plants: &mut Plants) {
        match &self.plant {
            Some((name, tag)) => {
                plants.insert(self.id, NewPlant::new(self.id, name, tag.as_deref()))
            }
            None => plants.remove(&self.id),
        };
    }
}

/// The events of all pages, from the page of this query to the first empty one.
#[track_caller]
pub fn all_events(client: &Client, query: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut path = format!("/events?{query}");
    loop {
        let page = client.get(&path);
        let more = page.events();
        if more.is_empty() {
            return events;
        }
        events.extend(more);
        path = page.next_events();
    }
}

/// The cursor in the output of a backup command: `… the change CURSOR …`.
#[track_caller]
pub fn change_in(said: &str) -> &str {
    let (_, named) = said.rsplit_once("the change ").unwrap_or_else(|| panic!("no change: {said}"));
    named.split_whitespace().next().unwrap_or_else(|| panic!("no cursor: {said}"))
}

/// The cursor after all events.
#[track_caller]
pub fn newest_cursor(client: &Client) -> String {
    client.list("limit=1").events_after()
}

/// Asserts that a page, a long poll and a stream refuse a cursor, and that a stream refuses it in `Last-Event-ID` too.
#[track_caller]
pub fn assert_cursor_refused(client: &Client, cursor: &str) {
    let page = format!("/events?after={cursor}");
    let poll = format!("{page}&wait=1");
    let stream = ("accept", "text/event-stream");
    for (path, headers) in [
        (page.as_str(), &[][..]),
        (&poll, &[]),
        (&page, &[stream]),
        ("/events", &[stream, ("last-event-id", cursor)]),
    ] {
        let message = client.send("GET", path, headers, "").assert_error(410, 3004);
        assert!(message.contains("X-Events-After"), "{message}");
    }
}
