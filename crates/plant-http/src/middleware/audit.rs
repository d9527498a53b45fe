//! One line for each plant of an import, under `plantd::audit::import`. The level is `debug`, because an import may have millions of
//! plants.

use std::mem;
use std::rc::Rc;

use log::Level;
use log::kv::Source;
use plant_domain::PlantId;
use plant_store::Imported;

use crate::middleware::context::RequestContext;
use crate::middleware::log_fields::{self, AsText};

const IMPORT_LOG: &str = "plantd::audit::import";

/// Plants of an import on their way to the repository. Their outcomes are logged when they are known, or on drop as
/// unknown.
pub(crate) struct AuditedImport {
    context: Rc<RequestContext>,
    /// The number of plants whose outcome is not known yet.
    unknown: u64,
    /// The same plants, if the log level asks for a line for each.
    plants: Vec<PlantId>,
}

impl AuditedImport {
    /// These plants are about to go to the repository.
    pub(crate) fn begin(
        context: &Rc<RequestContext>,
        plants: impl ExactSizeIterator<Item = PlantId>,
    ) -> Self {
        let unknown = plants.len() as u64;
        let is_logged = log::log_enabled!(target: IMPORT_LOG, Level::Debug);
        let plants = if is_logged { plants.collect() } else { Vec::new() };
        Self { context: Rc::clone(context), unknown, plants }
    }

    /// Logs the outcomes, in the order of the plants.
    pub(crate) fn end(mut self, imported: &[Imported]) {
        self.unknown = 0;
        for (plant, imported) in mem::take(&mut self.plants).into_iter().zip(imported) {
            let outcome = match imported {
                Imported::Created => "created",
                Imported::Replaced => "replaced",
                // Nothing changed.
                Imported::Skipped | Imported::IdTaken | Imported::Refused(_) => continue,
            };
            self.log(outcome, plant);
        }
    }

    fn log(&self, outcome: &str, plant: PlantId) {
        let of_request = self.context.fields();
        let of_plant = [Some(("plant", plant.get().into()))];
        let all: [&dyn Source; 3] =
            [&("outcome", outcome), &of_request.as_slice(), &of_plant.as_slice()];
        let text = format_args!("{outcome}{}{}", AsText(&of_request), AsText(&of_plant));
        log_fields::log(Level::Debug, IMPORT_LOG, text, &all.as_slice());
    }
}

/// The client disconnected, or the store failed.
impl Drop for AuditedImport {
    fn drop(&mut self) {
        self.context.count_import(|counts| counts.unknown += self.unknown);
        for plant in &self.plants {
            self.log("unknown", *plant);
        }
    }
}
