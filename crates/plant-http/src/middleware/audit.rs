//! One line for each plant of an import or a batch, under `plantd::audit::import` and `plantd::audit::batch`. The level is
//! `debug`, because an import may have millions of plants.

use std::mem;
use std::rc::Rc;

use log::Level;
use plant_domain::PlantId;

use crate::middleware::context::RequestContext;
use crate::middleware::log_fields::{self, FieldValue};

const IMPORT_LOG: &str = "plantd::audit::import";
const BATCH_LOG: &str = "plantd::audit::batch";

/// Writes of an import or a batch on their way to the repository. Their outcomes are logged when they are known, or on drop
/// as unknown.
pub(crate) struct AuditedWrites {
    context: Rc<RequestContext>,
    log: &'static str,
    /// How many plants of an import have no outcome yet; 0 for a batch.
    unknown: u64,
    /// The plants without an outcome, if the log level asks for a line for each.
    plants: Vec<PlantId>,
}

impl AuditedWrites {
    /// These plants of an import are about to go to the repository.
    pub(crate) fn of_import(
        context: &Rc<RequestContext>,
        plants: impl ExactSizeIterator<Item = PlantId>,
    ) -> Self {
        let unknown = plants.len() as u64;
        Self::begin(context, IMPORT_LOG, unknown, plants)
    }

    /// The writes of these plants are about to go to the repository.
    pub(crate) fn of_batch(
        context: &Rc<RequestContext>,
        plants: impl Iterator<Item = PlantId>,
    ) -> Self {
        Self::begin(context, BATCH_LOG, 0, plants)
    }

    fn begin(
        context: &Rc<RequestContext>,
        log: &'static str,
        unknown: u64,
        plants: impl Iterator<Item = PlantId>,
    ) -> Self {
        let is_logged = log::log_enabled!(target: log, Level::Debug);
        let plants = if is_logged { plants.collect() } else { Vec::new() };
        Self { context: Rc::clone(context), log, unknown, plants }
    }

    /// Logs the outcomes, in the order of the plants; `None` where nothing changed.
    pub(crate) fn end(mut self, outcomes: impl Iterator<Item = Option<&'static str>>) {
        self.unknown = 0;
        for (plant, outcome) in mem::take(&mut self.plants).into_iter().zip(outcomes) {
            if let Some(outcome) = outcome {
                self.log(outcome, plant);
            }
        }
    }

    fn log(&self, outcome: &str, plant: PlantId) {
        let first = [Some(("outcome", FieldValue::Text(outcome)))];
        let of_plant = [Some(("plant", FieldValue::Integer(plant.get())))];
        let last: [&[_]; 2] = [&self.context.fields(), &of_plant];
        log_fields::log(Level::Debug, self.log, outcome.to_owned(), &first, &last);
    }
}

/// The client disconnected, or the store failed.
impl Drop for AuditedWrites {
    fn drop(&mut self) {
        if self.unknown > 0 {
            self.context.count_import(|counts| counts.unknown += self.unknown);
        }
        for plant in &self.plants {
            self.log("unknown", *plant);
        }
    }
}
