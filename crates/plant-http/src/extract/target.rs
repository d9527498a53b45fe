//! The plant in the path of a request.

use actix_web::HttpRequest;
use plant_domain::PlantId;
use plant_store::{Preconditions, Revision};

use crate::errors::Failure;
use crate::extract::entity_tag::preconditions;
use crate::extract::head::FromHead;
use crate::extract::query::{NoQuery, read_id, revision};
use crate::middleware::context::RequestContext;

/// The plant in the path, and the preconditions of the request.
pub(crate) struct Target {
    pub(crate) id: PlantId,
    pub(crate) preconditions: Preconditions,
}

impl FromHead for Target {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        let id = plant_in_path(request)?;
        NoQuery::read(request)?;
        Ok(Self { id, preconditions: preconditions(request.headers())? })
    }
}

/// The plant that a read asks for, and the preconditions of the request.
pub(crate) struct ReadTarget {
    pub(crate) id: PlantId,
    /// `None` for the current state.
    pub(crate) revision: Option<Revision>,
    pub(crate) preconditions: Preconditions,
}

impl FromHead for ReadTarget {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        let id = plant_in_path(request)?;
        let revision = revision(request.query_string())?;
        Ok(Self { id, revision, preconditions: preconditions(request.headers())? })
    }
}

/// The plant in the path, without preconditions.
pub(crate) struct PlantInPath(pub(crate) PlantId);

impl FromHead for PlantInPath {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        plant_in_path(request).map(Self)
    }
}

fn plant_in_path(request: &HttpRequest) -> Result<PlantId, Failure> {
    let id = read_id("id", id_in_path(request).unwrap_or_default())?;
    RequestContext::of(request).record_plant(id);
    Ok(id)
}

/// The id in the path, as text: the second segment behind the path that the service is mounted on.
pub(super) fn id_in_path(request: &HttpRequest) -> Option<&str> {
    request.match_info().unprocessed().split('/').nth(2)
}
