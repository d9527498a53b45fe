//! The records of events and of replaced versions of plants, and their bytes.

use std::time::SystemTime;

use anyhow::Context as _;
use plant_domain::{Plant, PlantId};
use serde::{Deserialize, Serialize};

use crate::event::from_millis;
use crate::format::{Format, whole};
use crate::record::EncodedPlant;
use crate::sled::commit::change::check_time;
use crate::{Author, EventKind};

const EVENT: Format = Format { name: "an event", oldest: 1, newest: 2 };
const VERSION: Format = Format { name: "a version of a plant", oldest: 1, newest: 1 };

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    pub(crate) core: EventCore,
    /// The author of the change. Version 1 has no authors.
    pub(crate) by: Option<Author>,
    /// The sequence number of the plant's previous event. None before a creation, and in version 1.
    pub(crate) previous: Option<u64>,
}

/// What every version of an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventCore {
    pub(crate) kind: EventKind,
    pub(crate) id: i64,
    /// When the group of the change was decided, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

impl EventRecord {
    pub(crate) fn encode(&self) -> anyhow::Result<Vec<u8>> {
        // Everything but the author takes less than 40 bytes.
        let capacity = self.by.as_ref().map_or(0, |by| by.name().len()) + 40;
        EVENT.encode(&(self.core, &self.by, self.previous), capacity)
    }

    pub(crate) fn decode(value: &[u8]) -> anyhow::Result<Self> {
        let decode = || {
            let (core, by, previous): (EventCore, _, _) = match EVENT.version_of(value)? {
                (1, content) => (whole(content)?, None, None),
                (_, content) => whole(content)?,
            };
            check_time(core.at_ms)?;
            anyhow::Ok(Self { core, by, previous })
        };
        decode().context("an event is damaged")
    }

    pub(crate) fn id(&self) -> PlantId {
        PlantId::from(self.core.id)
    }

    pub(crate) fn at(&self) -> SystemTime {
        from_millis(self.core.at_ms)
    }
}

/// The name and the tag of a plant between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version<'a> {
    name: &'a str,
    tag: Option<&'a str>,
}

impl<'a> Version<'a> {
    pub(crate) fn encode(record: &EncodedPlant) -> anyhow::Result<Vec<u8>> {
        let record = record.decode()?;
        let version = Version { name: record.name, tag: record.tag };
        VERSION.encode(&version, record.name.len() + record.tag.map_or(0, str::len) + 8)
    }

    pub(crate) fn decode(value: &'a [u8]) -> anyhow::Result<Plant> {
        let version: Version<'a> = VERSION.decode(value).context("a version is damaged")?;
        let plant = Plant::new(version.name, version.tag.map(str::to_owned));
        plant.context("a version of a plant breaks the rules")
    }
}
