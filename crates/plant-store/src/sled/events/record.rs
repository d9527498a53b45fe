//! The records of events, and their bytes.

use std::time::SystemTime;

use anyhow::Context as _;
use plant_domain::PlantId;
use serde::{Deserialize, Serialize};

use crate::event::from_millis;
use crate::format::{Format, whole};
use crate::sled::commit::change::check_time;
use crate::{Author, EventKind};

const EVENT: Format = Format { name: "an event", oldest: 1, newest: 2 };

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
