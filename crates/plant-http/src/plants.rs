//! The operations on plants.

use actix_http::header;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use plant_domain::NewPlant;
use plant_store::{IdempotencyDigest, PlantRepository, Revision};

use crate::body::JsonBody;
use crate::failure::{ErrorNumber, Failure};
use crate::idempotency_key::idempotency_key;
use crate::parameters;
use crate::wire::read_new_plant;

/// `POST /plants`: the specification's operation.
pub(crate) async fn create(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
    body: JsonBody,
) -> Result<HttpResponse, Failure> {
    parameters::no_query(&request)?;
    let key = idempotency_key(request.headers())?;
    let new_plant = NewPlant::try_from(read_new_plant(&body.0)?)?;
    let idempotency = key.map(|key| IdempotencyDigest::new(&key, &new_plant));

    let stored = repository.create(new_plant, idempotency).await?;

    Ok(ok(stored.revision)
        .insert_header((header::LOCATION, format!("/plants/{}", stored.id)))
        .json(&stored.plant))
}

/// `GET /plants/{id}`.
pub(crate) async fn read(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
) -> Result<HttpResponse, Failure> {
    parameters::no_query(&request)?;
    let id = parameters::plant_id(&request)?;

    let found = repository.get(id).await?;

    let stored = found.ok_or_else(|| {
        Failure::new(ErrorNumber::NoSuchPlant, format!("there is no plant with id {id}"))
    })?;
    Ok(ok(stored.revision).json(stored.into_new_plant()))
}

/// A success that carries the plant's revision as a strong entity tag (RFC 9110, section 8.8.3).
fn ok(revision: Revision) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response.insert_header((header::ETAG, format!("\"{revision}\"")));
    response
}
