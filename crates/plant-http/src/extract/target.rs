//! The plant in the path of a request.

use actix_web::HttpRequest;
use plant_domain::PlantId;
use plant_store::Preconditions;

use crate::errors::Failure;
use crate::extract::entity_tag::preconditions;
use crate::extract::head::FromHead;
use crate::extract::query::{NoQuery, read_id};
use crate::middleware::context::RequestContext;

/// The plant in the path, and the preconditions of the request.
pub(crate) struct Target {
    pub(crate) id: PlantId,
    pub(crate) preconditions: Preconditions,
}

impl FromHead for Target {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        let id = read_id("id", id_in_path(request).unwrap_or_default())?;
        RequestContext::of(request).record_plant(id);
        NoQuery::read(request)?;
        Ok(Self { id, preconditions: preconditions(request.headers())? })
    }
}

/// The id in the path, as text. It is the last parameter of this name: the path that the service is mounted on may have
/// one too.
pub(super) fn id_in_path(request: &HttpRequest) -> Option<&str> {
    let ids = request.match_info().iter().filter(|(name, _)| *name == "id");
    ids.last().map(|(_, id)| id)
}
