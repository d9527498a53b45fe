//! An event in a test.

use serde_json::Value;

use crate::plant::plant_json;

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

    /// As events name it.
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
    /// The position of a client that has read up to this event.
    pub cursor: String,
    /// What happened.
    pub kind: EventKind,
    /// The plant that it happened to.
    pub id: i64,
    /// When it happened.
    pub at: String,
    /// The name and the tag that the plant has now, if the event shows the plant.
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
            plant: value
                .get("plant")
                .map(|plant| (text(plant, "name"), plant["tag"].as_str().map(str::to_owned))),
        };
        let mut shape = serde_json::json!({
            "cursor": event.cursor, "kind": event.kind.name(), "id": event.id, "at": event.at,
        });
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
}
