//! The operations on one plant, and the list of them.

use actix_http::header::{self, HeaderName};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use plant_domain::{NewPlant, Plant, PlantId, PlantPatch, Violations};
use plant_store::{
    Created, IdempotencyDigest, PlantRepository, Precondition, Preconditions, Put, StoreError,
    StoredPlant,
};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::{JsonBody, MergePatchBody};
use crate::extract::entity_tag::{entity_tag, preconditions};
use crate::extract::idempotency_key::idempotency_key;
use crate::extract::parameters::{self, ListQuery};
use crate::extract::wire::{read_new_plant, read_plant, read_plant_patch};
use crate::request_context::RequestContext;

/// The header that says how many plants there are.
pub const TOTAL_COUNT_HEADER: &str = "x-total-count";

/// `POST /plants`: the specification's operation.
pub(crate) async fn create(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
    body: JsonBody,
) -> Result<HttpResponse, Failure> {
    parameters::no_query(&request)?;
    let key = idempotency_key(request.headers())?;
    let new_plant = NewPlant::try_from(read_new_plant(&body.0)?)?;
    RequestContext::of_handled(&request)?.is_about(new_plant.id())?;
    let idempotency = key.map(|key| IdempotencyDigest::new(&key, &new_plant));

    #[cfg(feature = "__fault-points")]
    plant_store::fault::point("in-handler");
    let Created { stored, is_current } = repository.create(new_plant, idempotency).await?;

    let mut response = HttpResponse::Ok();
    if is_current {
        // Else the client would take the tag for one of the plant that it is told of.
        response.insert_header(entity_tag(stored.revision));
    }
    Ok(response.insert_header(location(stored.id)).json(&stored.plant))
}

/// `GET /plants`.
pub(crate) async fn list(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
) -> Result<HttpResponse, Failure> {
    let query = ListQuery::read(request.query_string())?;

    let page = repository.list(query.page_request.clone()).await?;

    let mut response = HttpResponse::Ok();
    if query.page_request.filter.matches_all() {
        response.insert_header((TOTAL_COUNT_HEADER, repository.count().await?));
    }
    if let Some(after) = page.next {
        let next = query.next(after);
        response.insert_header((header::LINK, format!("</plants?{next}>; rel=\"next\"")));
    }
    let plants: Vec<NewPlant> = page.plants.into_iter().map(StoredPlant::into_new_plant).collect();
    Ok(response.json(plants))
}

/// `GET /plants/{id}`.
pub(crate) async fn read(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
) -> Result<HttpResponse, Failure> {
    let (id, preconditions) = target(&request)?;

    let found = repository.get(id).await?;

    let stored = found.ok_or(StoreError::NoSuchPlant(id))?;
    match preconditions.check(Some(stored.revision)) {
        Ok(()) => Ok(HttpResponse::Ok()
            .insert_header(entity_tag(stored.revision))
            .json(stored.into_new_plant())),
        // The client has it already (RFC 9110, section 13.2.2).
        Err(Precondition::IfNoneMatch) => {
            Ok(HttpResponse::NotModified().insert_header(entity_tag(stored.revision)).finish())
        }
        Err(failed) => Err(StoreError::PreconditionFailed(failed).into()),
    }
}

/// `PUT /plants/{id}`.
pub(crate) async fn put(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
    body: JsonBody,
) -> Result<HttpResponse, Failure> {
    let (id, preconditions) = target(&request)?;
    let (sent_id, plant) = read_plant(&body.0)?;
    let plant = checked(id, sent_id, Plant::try_from(plant))?;

    let put = repository.put(NewPlant::new(id, plant), preconditions).await?;

    let Put { stored, is_new } = put;
    let mut response = if is_new { HttpResponse::Created() } else { HttpResponse::Ok() };
    if is_new {
        response.insert_header(location(id));
    }
    Ok(response.insert_header(entity_tag(stored.revision)).json(&stored.plant))
}

/// `PATCH /plants/{id}`: a merge patch (RFC 7396).
pub(crate) async fn patch(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
    body: MergePatchBody,
) -> Result<HttpResponse, Failure> {
    let (id, preconditions) = target(&request)?;
    let (sent_id, patch) = read_plant_patch(&body.0)?;
    let patch = checked(id, sent_id, PlantPatch::try_from(patch))?;

    let stored = repository.patch(id, patch, preconditions).await?;

    Ok(HttpResponse::Ok().insert_header(entity_tag(stored.revision)).json(&stored.plant))
}

/// `DELETE /plants/{id}`.
pub(crate) async fn delete(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
) -> Result<HttpResponse, Failure> {
    let (id, preconditions) = target(&request)?;

    repository.delete(id, preconditions).await?;

    Ok(HttpResponse::NoContent().finish())
}

/// Which plant a request is about, and what it has to be like.
fn target(request: &HttpRequest) -> Result<(PlantId, Preconditions), Failure> {
    let id = parameters::plant_id(request)?;
    RequestContext::of_handled(request)?.is_about(id)?;
    parameters::no_query(request)?;
    Ok((id, preconditions(request.headers())?))
}

fn location(id: PlantId) -> (HeaderName, String) {
    (header::LOCATION, format!("/plants/{id}"))
}

/// What was sent for the plant with this id, where it follows the rules and any id in it is the same.
fn checked<T>(
    id: PlantId,
    sent_id: Option<i64>,
    checked: Result<T, Violations>,
) -> Result<T, Failure> {
    let mut problems = Vec::new();
    if sent_id.is_some_and(|sent_id| sent_id != id.get()) {
        problems.push(format!("id must be {id}, as in the path, or be left out"));
    }
    match checked {
        Ok(checked) if problems.is_empty() => return Ok(checked),
        Ok(_) => {}
        Err(violations) => problems.push(violations.to_string()),
    }
    Err(Failure::new(ErrorNumber::RuleBroken, problems.join("; ")))
}
