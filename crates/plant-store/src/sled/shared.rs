//! What those who read and those who write share beside sled.

use plant_domain::PlantId;

use super::blocks::{self, BlocksLock};
use super::generation::Generations;
use super::id_filter::IdFilter;
use super::layout::{PLANT_PREFIX, State};
use super::ordered_map::Tree;
use crate::plant_record::EncodedPlant;

#[derive(Debug)]
pub(super) struct Shared {
    /// What is not in sled yet.
    pub(super) generations: Generations,
    /// For those who read blocks from sled.
    pub(super) blocks: BlocksLock,
}

impl Shared {
    /// Beside a sled that has everything.
    pub(super) fn new(state: State, ids: IdFilter) -> Self {
        Self { generations: Generations::behind(state, ids), blocks: BlocksLock::default() }
    }

    /// What is kept of a plant, if there is one with this id.
    pub(super) fn record(&self, tree: &Tree, id: PlantId) -> anyhow::Result<Option<EncodedPlant>> {
        // What is not in memory any more at the moment of this look is in sled.
        {
            let recent = self.generations.read();
            if let Some(record) = recent.plant(id) {
                return Ok(record.clone());
            }
            if !recent.ids.may_know(id) {
                return Ok(None);
            }
        }
        let _reading = self.blocks.read()?;
        blocks::get(tree, PLANT_PREFIX, id)
    }
}
