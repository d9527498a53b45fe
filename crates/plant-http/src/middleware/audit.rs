//! What the log tells of requests.
//!
//! Each request has one line. It stands under `plantd::audit` when the request may change something and
//! was let in, else under `plantd::access`. The line of an import has its counts. Each plant that an import
//! brings has a line of its own under `plantd::audit::import`, at the level `debug`: an import may bring
//! millions. No line holds a query, a header but the request's id, or a body: each may hold a secret.

use std::borrow::Cow;
use std::rc::Rc;

use log::Level;
use plant_domain::PlantId;
use plant_store::Imported;

use crate::middleware::context::RequestContext;

pub(crate) const ACCESS_LOG: &str = "plantd::access";
pub(crate) const AUDIT_LOG: &str = "plantd::audit";
const IMPORT_LOG: &str = "plantd::audit::import";

/// How much of a method and of a path stands in a line. The other parts of a line have limits of their own.
pub(crate) const LOGGED_METHOD_MAX_BYTES: usize = 32;
pub(crate) const LOGGED_PATH_MAX_BYTES: usize = 256;

/// What stands behind a text of which there is more.
const CUT: &str = "…(cut)";

/// A text of a client as it stands in the log.
pub(crate) fn cut(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return text.into();
    }
    let begin = &text[..text.floor_char_boundary(max_bytes)];
    format!("{begin}{CUT}").into()
}

/// Plants on their way to the repository. What becomes of them is logged when it is known, or when it will
/// not be known any more.
pub(crate) struct AuditedImport {
    context: Rc<RequestContext>,
    /// How many there are of which nothing is known yet.
    unknown: u64,
    /// Those of which nothing was logged yet, where each has a line.
    plants: Vec<PlantId>,
}

impl AuditedImport {
    /// The request brings these plants.
    pub(crate) fn begin(
        context: &Rc<RequestContext>,
        plants: impl ExactSizeIterator<Item = PlantId>,
    ) -> Self {
        let unknown = plants.len() as u64;
        let is_logged = log::log_enabled!(target: IMPORT_LOG, Level::Debug);
        let plants = if is_logged { plants.collect() } else { Vec::new() };
        Self { context: Rc::clone(context), unknown, plants }
    }

    /// This became of them, in their order.
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

/// The client went away, or the store failed.
impl Drop for AuditedImport {
    fn drop(&mut self) {
        self.context.count_import(|counts| counts.unknown += self.unknown);
        for plant in &self.plants {
            log::debug!(target: IMPORT_LOG, "unknown {} plant={plant}", self.context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_two_characters() {
        for (text, wanted) in [
            ("", ""),
            ("abcd", "abcd"),
            ("abcde", "abcd…(cut)"),
            ("abcé", "abc…(cut)"),
            ("éé", "éé"),
        ] {
            assert_eq!(cut(text, 4), wanted);
        }
    }
}
