//! The log of requests.
//!
//! Each request has one line, under `plantd::audit` when it may change something and the gate let it in, else under
//! `plantd::access`. The line of an import has its counts, and each of its plants a line under `plantd::audit::import`,
//! at the level `debug` because an import may have millions. No line holds a query, a body, or a header other than the
//! request's id: each may hold a secret.

use std::borrow::Cow;
use std::rc::Rc;

use log::Level;
use plant_domain::PlantId;
use plant_store::Imported;

use crate::middleware::context::RequestContext;

pub(crate) const ACCESS_LOG: &str = "plantd::access";
pub(crate) const AUDIT_LOG: &str = "plantd::audit";
const IMPORT_LOG: &str = "plantd::audit::import";

/// How much of a method and of a path is logged. The other parts of a line have their own limits.
pub(crate) const LOGGED_METHOD_MAX_BYTES: usize = 32;
pub(crate) const LOGGED_PATH_MAX_BYTES: usize = 256;

/// A client's text for the log.
pub(crate) fn cut(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return text.into();
    }
    format!("{}…(cut)", &text[..text.floor_char_boundary(max_bytes)]).into()
}

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
        for (plant, imported) in self.plants.drain(..).zip(imported) {
            let outcome = match imported {
                Imported::Created => "created",
                Imported::Replaced => "replaced",
                // Nothing changed.
                Imported::Skipped | Imported::IdTaken | Imported::Refused(_) => continue,
            };
            log::debug!(target: IMPORT_LOG, "{outcome} {} plant={plant}", self.context);
        }
    }
}

/// The client disconnected, or the store failed.
impl Drop for AuditedImport {
    fn drop(&mut self) {
        self.context.count_import(|counts| counts.unknown += self.unknown);
        for plant in &self.plants {
            log::debug!(target: IMPORT_LOG, "unknown {} plant={plant}", self.context);
        }
    }
}
