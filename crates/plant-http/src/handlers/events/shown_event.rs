//! Events as clients see them: those that follow events, and the receivers of webhooks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use plant_domain::{Plant, PlantId};
use plant_store::{
    Author, Event, EventCursor, EventKind, PlantRepository, StoreError, StoredPlant,
};
use serde::{Serialize, Serializer};

/// How many plants of a page are read at the same time: a store may read many at once.
const READS_AT_ONCE: usize = 256;

type Plants = BTreeMap<PlantId, StoredPlant>;

/// An event as clients see it.
#[derive(Clone, Debug, Serialize)]
pub struct ShownEvent {
    /// The position of a reader that has read up to this event.
    pub cursor: EventCursor,
    /// What happened.
    pub kind: EventKind,
    /// The plant that changed.
    pub id: PlantId,
    /// When it happened.
    #[serde(serialize_with = "as_time")]
    pub at: SystemTime,
    /// The name of the token that made the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// The plant, if plants are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plant: Option<Plant>,
}

impl From<Event> for ShownEvent {
    /// The event without its plant.
    fn from(event: Event) -> Self {
        let Event { cursor, kind, id, at, by } = event;
        Self { cursor, kind, id, at, by, plant: None }
    }
}

/// Events as the receivers of webhooks see them. With `with_plants`, an event has its plant only if the plant has not
/// changed since. So the same events, shown again later, are never longer.
///
/// # Errors
///
/// When the repository fails.
pub async fn events_with_unchanged_plants(
    repository: &dyn PlantRepository,
    events: Vec<Event>,
    with_plants: bool,
) -> Result<Vec<ShownEvent>, StoreError> {
    let is_shown = |event: &Event, stored: &StoredPlant| stored.revision == event.revision();
    shown_events(repository, events, with_plants, is_shown).await
}

/// Events, with their plants as they are now if `with_plants` and `is_shown` say so.
pub(super) async fn shown_events(
    repository: &dyn PlantRepository,
    events: Vec<Event>,
    with_plants: bool,
    is_shown: impl Fn(&Event, &StoredPlant) -> bool,
) -> Result<Vec<ShownEvent>, StoreError> {
    let plants = if with_plants { plants_of(repository, &events).await? } else { Plants::new() };
    let shown = |event: Event| {
        let stored = plants.get(&event.id).filter(|stored| is_shown(&event, stored));
        let plant = stored.map(|stored| stored.plant.clone());
        ShownEvent { plant, ..event.into() }
    };
    Ok(events.into_iter().map(shown).collect())
}

/// The plants of these events, as they are now.
async fn plants_of(
    repository: &dyn PlantRepository,
    events: &[Event],
) -> Result<Plants, StoreError> {
    let ids: BTreeSet<PlantId> = events.iter().map(|event| event.id).collect();
    let reads = ids.into_iter().map(|id| repository.get(id));
    let found: Vec<Option<StoredPlant>> =
        stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
    let plants: Plants = found.into_iter().flatten().map(|stored| (stored.id, stored)).collect();
    if events.iter().any(|event| has_changed(event, plants.get(&event.id))) {
        // The events are durable, but a newer state of a plant may not be. If it were undone, no event would say so.
        repository.wait_until_durable().await?;
    }
    Ok(plants)
}

/// Whether a plant has changed since an event.
fn has_changed(event: &Event, stored: Option<&StoredPlant>) -> bool {
    match stored {
        Some(stored) => stored.revision != event.revision(),
        None => event.kind != EventKind::Deleted,
    }
}

/// RFC 3339 in UTC, with milliseconds.
pub(crate) fn as_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let time = Timestamp::try_from(*time).unwrap_or(Timestamp::UNIX_EPOCH);
    serializer.collect_str(&format_args!("{time:.3}"))
}
