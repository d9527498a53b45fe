//! The records of a plant and of its replaced versions, and their bytes.

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use plant_domain::{Plant, PlantId, PlantRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::format::{Format, whole};
#[cfg(feature = "conformance")]
use crate::next_version;
use crate::write::KeptPlant;
use crate::{IdempotencyDigest, Revision, StoredPlant};

const FORMAT: Format = Format { name: "the record of a plant", oldest: 1, newest: 1 };
const VERSION: Format = Format { name: "a version of a plant", oldest: 1, newest: 1 };

/// The stored state of a plant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlantRecord<'a> {
    pub(crate) revision: u64,
    /// The digest of the create that made the plant, if the create had an idempotency key.
    pub(crate) idempotency: Option<[u8; IdempotencyDigest::BYTES]>,
    pub(crate) name: &'a str,
    pub(crate) tag: Option<&'a str>,
}

impl<'a> PlantRecord<'a> {
    /// A plant with this name alone.
    #[cfg(test)]
    pub(crate) fn named(name: &'a str, revision: u64) -> Self {
        Self { revision, idempotency: None, name, tag: None }
    }

    pub(crate) const fn members(&self) -> PlantRef<'a> {
        let Self { name, tag, .. } = *self;
        PlantRef { name, tag }
    }

    pub(crate) fn encode(&self) -> anyhow::Result<EncodedPlant> {
        #[cfg(feature = "conformance")]
        if next_version::is_written() {
            return Ok(EncodedPlant(next_version::encode(FORMAT, self)?.into()));
        }
        // Everything but the texts takes less than 40 bytes, so this is the only allocation.
        let capacity = self.name.len() + self.tag.map_or(0, str::len) + 40;
        Ok(EncodedPlant(FORMAT.encode(self, capacity)?.into()))
    }

    /// The only decoder of plants. Members that a version lacks get their defaults here.
    pub(crate) fn decode(bytes: &'a [u8]) -> anyhow::Result<Self> {
        #[cfg(feature = "conformance")]
        if next_version::is_written() {
            return next_version::decode(FORMAT, bytes);
        }
        match FORMAT.version_of(bytes)? {
            (1, content) => whole(content),
            (version, _) => bail!("version {version} of a plant has no decoder"),
        }
    }

    pub(crate) fn of(plant: &'a KeptPlant) -> Self {
        let KeptPlant { stored: StoredPlant { plant, revision, .. }, idempotency } = plant;
        let idempotency = idempotency.map(IdempotencyDigest::to_bytes);
        let PlantRef { name, tag } = plant.members();
        Self { revision: revision.get(), idempotency, name, tag }
    }

    pub(crate) fn to_kept_plant(self, id: PlantId) -> anyhow::Result<KeptPlant> {
        let idempotency = self.idempotency.map(IdempotencyDigest::from_bytes);
        Ok(KeptPlant { stored: self.to_stored_plant(id)?, idempotency })
    }

    /// Checks the rules again: a record that breaks one is damaged.
    pub(crate) fn to_stored_plant(self, id: PlantId) -> anyhow::Result<StoredPlant> {
        ensure!(self.revision > 0, "the record of plant {id} has no revision");
        let plant = self.members().to_plant();
        let plant = plant.with_context(|| format!("the record of plant {id} breaks the rules"))?;
        Ok(StoredPlant { id, plant, revision: Revision::from(self.revision) })
    }
}

/// The bytes of a [`PlantRecord`], as they go from a write through the write-ahead log and a memtable to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodedPlant(Arc<[u8]>);

impl EncodedPlant {
    pub(crate) fn decode(&self) -> anyhow::Result<PlantRecord<'_>> {
        PlantRecord::decode(&self.0)
    }

    /// The plant alone.
    pub(crate) fn to_plant(&self) -> anyhow::Result<Plant> {
        let plant = self.decode()?.members().to_plant();
        plant.context("the record of a plant breaks the rules")
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for EncodedPlant {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Arc<[u8]>> for EncodedPlant {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(bytes)
    }
}

impl Serialize for EncodedPlant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for EncodedPlant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Self::from)
    }
}

/// The members of a plant between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version<'a> {
    name: &'a str,
    tag: Option<&'a str>,
}

impl<'a> Version<'a> {
    pub(crate) fn encode(record: &EncodedPlant) -> anyhow::Result<Vec<u8>> {
        let PlantRef { name, tag } = record.decode()?.members();
        VERSION.encode(&Version { name, tag }, name.len() + tag.map_or(0, str::len) + 8)
    }

    pub(crate) fn decode(value: &'a [u8]) -> anyhow::Result<Plant> {
        let Version { name, tag } = VERSION.decode(value).context("a version is damaged")?;
        PlantRef { name, tag }.to_plant().context("a version of a plant breaks the rules")
    }
}
