//! What the log tells of requests.
//!
//! Each request has one line. It stands under `plantd::audit` when the request may change something and
//! was let in, else under `plantd::access`. Each plant that an import brings has a line of its own, under
//! `plantd::audit::import`. No line holds a query, a header but the request's id, or a body: each may hold
//! a secret.

use std::rc::Rc;

use log::Level;
use plant_domain::PlantId;
use plant_store::Imported;

use crate::request_context::RequestContext;

pub(crate) const ACCESS_LOG: &str = "plantd::access";
pub(crate) const AUDIT_LOG: &str = "plantd::audit";
const IMPORT_LOG: &str = "plantd::audit::import";

/// Plants on their way to the repository. What becomes of them is logged when it is known, or when it will
/// not be known any more.
pub(crate) struct AuditedImport {
    context: Rc<RequestContext>,
    /// Those of which nothing was logged yet.
    plants: Vec<PlantId>,
}

impl AuditedImport {
    /// The request brings these plants.
    pub(crate) fn begin(
        context: &Rc<RequestContext>,
        plants: impl Iterator<Item = PlantId>,
    ) -> Self {
        let is_logged = log::log_enabled!(target: IMPORT_LOG, Level::Info);
        let plants = if is_logged { plants.collect() } else { Vec::new() };
        Self { context: Rc::clone(context), plants }
    }

    /// This became of them, in their order.
    pub(crate) fn end(mut self, imported: &[Imported]) {
        for (plant, imported) in self.plants.drain(..).zip(imported) {
            let outcome = match imported {
                Imported::Created => "created",
                Imported::Replaced => "replaced",
                // Nothing changed.
                Imported::Skipped | Imported::IdTaken | Imported::Refused(_) => continue,
            };
            log::info!(target: IMPORT_LOG, "{outcome} {} plant={plant}", self.context);
        }
    }
}

/// The client went away, or the store failed.
impl Drop for AuditedImport {
    fn drop(&mut self) {
        for plant in &self.plants {
            log::info!(target: IMPORT_LOG, "unknown {} plant={plant}", self.context);
        }
    }
}
