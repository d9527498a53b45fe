//! The operations on one plant, and the list of them.

use std::rc::Rc;

use actix_http::{Method, header};
use actix_web::HttpResponse;
use actix_web::web::{Data, ReqData};
use plant_domain::{NewPlant, Plant, PlantFilter, PlantPatch};
use plant_store::write::Write;
use plant_store::{IdempotencyDigest, Precondition, StoreError};

use crate::answers::AnswerMemory;
use crate::errors::Failure;
use crate::extract::entity_tag::entity_tag;
use crate::extract::head::Head;
use crate::extract::idempotency_key::IdempotencyKey;
use crate::extract::json::Json;
use crate::extract::media_type::JSON;
use crate::extract::query::{ListQuery, NoQuery, PageQuery};
use crate::extract::target::{ReadTarget, Target};
use crate::handlers::events::EVENTS_AFTER_HEADER;
use crate::handlers::write_answer::WriteAnswer;
use crate::handlers::{Repository, without_content};
use crate::limits::PLANT_ANSWER_MAX_BYTES;
use crate::middleware::context::RequestContext;
use crate::server::deadlines::ROOM_DEADLINE;

/// The header with the number of all plants, or of those with a tag.
pub const TOTAL_COUNT_HEADER: &str = "x-total-count";

/// The header of a page that met the bound on its work, with the id up to which plants were examined.
const SEARCHED_TO_HEADER: &str = "x-searched-to";

/// `POST /plants`: the operation of the specification.
pub(crate) async fn create(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    _: Head<NoQuery>,
    Head(IdempotencyKey(key)): Head<IdempotencyKey>,
    Json(new_plant): Json<NewPlant>,
) -> Result<HttpResponse, Failure> {
    context.record_plant(new_plant.id());
    let idempotency = key.map(|key| IdempotencyDigest::new(&key, &new_plant));

    #[cfg(feature = "__fault-points")]
    plant_store::fault::point("in-handler");
    write(&repository, &context, Write::Create(new_plant, idempotency)).await
}

/// `GET /plants`.
pub(crate) async fn list(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    memory: Data<AnswerMemory>,
    Head(query): Head<ListQuery>,
    method: Method,
) -> Result<HttpResponse, Failure> {
    let newest_event = repository.newest_event().await?;

    let mut response = HttpResponse::Ok();
    response.insert_header((EVENTS_AFTER_HEADER, newest_event.to_string()));
    if let ListQuery::Page(PageQuery { page_request, .. }) = &query
        && let Some(total) = total_count(&repository, &page_request.filter).await?
    {
        response.insert_header((TOTAL_COUNT_HEADER, total));
    }
    if method == Method::HEAD {
        return Ok(without_content(response, JSON));
    }
    let most = match &query {
        ListQuery::Ids(ids) => ids.len(),
        ListQuery::Page(query) => query.page_request.limit,
    };
    let room = memory.room_for(most, PLANT_ANSWER_MAX_BYTES, ROOM_DEADLINE).await?;
    let page = match query {
        ListQuery::Ids(ids) => repository.get_all(ids).await?,
        ListQuery::Page(query) => {
            let page = repository.list(query.page_request.clone()).await?;
            if let Some(searched_to) = page.next
                && page.len() < most
            {
                response.insert_header((SEARCHED_TO_HEADER, searched_to.to_string()));
            }
            let links = query.links(&page).map(|(place, relation)| {
                RequestContext::link(&context.plants_path(), &query.at(place), relation)
            });
            let links: Vec<String> = links.collect();
            if !links.is_empty() {
                response.insert_header((header::LINK, links.join(", ")));
            }
            page
        }
    };
    Ok(response.content_type(JSON).body(room.hold_json(&page)?))
}

/// The number of plants that a filter selects; `None` for a search by name, which only a scan of all plants could count.
pub(crate) async fn total_count(
    repository: &Repository,
    filter: &PlantFilter,
) -> Result<Option<u64>, Failure> {
    match filter.folded_name_part() {
        None => Ok(Some(repository.count(filter.tag()).await?)),
        Some(_) => Ok(None),
    }
}

/// `GET /plants/{id}`.
pub(crate) async fn read(
    repository: Repository,
    Head(ReadTarget { id, revision, preconditions }): Head<ReadTarget>,
) -> Result<HttpResponse, Failure> {
    let stored = match revision {
        Some(revision) => repository.version(id, revision).await?,
        None => repository.get(id).await?.ok_or(StoreError::NoSuchPlant(id))?,
    };
    match preconditions.check(Some(stored.revision)) {
        Ok(()) => Ok(HttpResponse::Ok()
            .insert_header((header::ETAG, entity_tag(stored.revision)))
            .json(stored.into_new_plant())),
        // The client has the plant already (RFC 9110, section 13.2.2).
        Err(Precondition::IfNoneMatch) => {
            let entity_tag = entity_tag(stored.revision);
            Ok(HttpResponse::NotModified().insert_header((header::ETAG, entity_tag)).finish())
        }
        Err(failed) => Err(StoreError::PreconditionFailed(failed).into()),
    }
}

/// `PUT /plants/{id}`.
pub(crate) async fn put(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    Head(Target { id, preconditions }): Head<Target>,
    Json(plant): Json<Plant>,
) -> Result<HttpResponse, Failure> {
    write(&repository, &context, Write::Put(plant.with_id(id), preconditions)).await
}

/// `PATCH /plants/{id}`: a merge patch (RFC 7396).
pub(crate) async fn patch(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    Head(Target { id, preconditions }): Head<Target>,
    Json(patch): Json<PlantPatch>,
) -> Result<HttpResponse, Failure> {
    write(&repository, &context, Write::Patch(id, patch, preconditions)).await
}

/// `DELETE /plants/{id}`.
pub(crate) async fn delete(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    Head(Target { id, preconditions }): Head<Target>,
) -> Result<HttpResponse, Failure> {
    write(&repository, &context, Write::Delete(id, preconditions)).await
}

async fn write(
    repository: &Repository,
    context: &RequestContext,
    write: Write,
) -> Result<HttpResponse, Failure> {
    let decision = repository.write(write, context.author()).await?;
    Ok(WriteAnswer::of(decision.into_written(), context).into())
}
