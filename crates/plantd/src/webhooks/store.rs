//! The store that senders read events from, and keep checkpoints in.

use std::sync::Arc;

use plant_store::{Checkpoints, PlantRepository};

/// One store under both of its contracts.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) repository: Arc<dyn PlantRepository>,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
}

impl Store {
    pub(crate) fn new(store: impl PlantRepository + Checkpoints + 'static) -> Self {
        let store = Arc::new(store);
        Self { repository: Arc::clone(&store) as _, checkpoints: store }
    }
}
