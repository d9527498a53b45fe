//! The record of an event, and its bytes.

use std::time::SystemTime;

use anyhow::Context as _;
use plant_domain::{Plant, PlantId};
use serde::{Deserialize, Serialize};

use crate::event::from_millis;
use crate::format::{Format, whole};
use crate::sled::commit::change::check_time;
use crate::{Author, EventKind, PastChange, Revision};

const FORMAT: Format = Format { name: "an event", oldest: 1, newest: 2 };

/// An event as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord<'a> {
    pub(crate) core: EventCore,
    /// Who made the change. Version 1 has no authors.
    pub(crate) by: Option<&'a str>,
    /// The name and the tag of the plant after the change, if it exists. Version 1 has no plants.
    pub(crate) plant: Option<(&'a str, Option<&'a str>)>,
}

/// What every version of an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventCore {
    pub(crate) kind: EventKind,
    pub(crate) id: i64,
    /// When the group of the change was decided, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

impl<'a> EventRecord<'a> {
    pub(crate) fn encode(&self) -> anyhow::Result<Vec<u8>> {
        // Everything but the texts takes less than 32 bytes.
        let texts = self.plant.map_or(0, |(name, tag)| name.len() + tag.map_or(0, str::len));
        let capacity = self.by.map_or(0, str::len) + texts + 32;
        FORMAT.encode(&(self.core, self.by, self.plant), capacity)
    }

    pub(crate) fn decode(value: &'a [u8]) -> anyhow::Result<Self> {
        let decode = || {
            let (core, by, plant) = match FORMAT.version_of(value)? {
                (1, content) => (whole(content)?, None, None),
                (_, content) => whole(content)?,
            };
            let core: EventCore = core;
            check_time(core.at_ms)?;
            anyhow::Ok(Self { core, by, plant })
        };
        decode().context("an event is damaged")
    }

    /// Whether the index by plant has the event: version 1 had no index.
    pub(crate) fn is_indexed(value: &[u8]) -> bool {
        value.first().is_some_and(|version| *version > 1)
    }

    pub(crate) fn at(&self) -> SystemTime {
        from_millis(self.core.at_ms)
    }

    pub(crate) fn author(&self) -> anyhow::Result<Option<Author>> {
        Ok(self.by.map(Author::new).transpose()?)
    }

    /// The change, in the history of its plant.
    pub(crate) fn to_past_change(self, sequence: u64) -> anyhow::Result<PastChange> {
        let plant = self.plant.map(|(name, tag)| Plant::new(name, tag.map(str::to_owned)));
        Ok(PastChange {
            revision: Revision::from(sequence),
            kind: self.core.kind,
            at: self.at(),
            by: self.author()?,
            plant: plant.transpose().context("the plant of an event breaks the rules")?,
        })
    }

    pub(crate) fn id(&self) -> PlantId {
        PlantId::from(self.core.id)
    }
}
