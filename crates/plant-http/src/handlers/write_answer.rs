//! The answer to a write of one plant: of a request of its own, and in a batch.

use actix_http::StatusCode;
use actix_http::header::{self, HeaderName};
use actix_web::HttpResponse;
use plant_domain::Plant;
use plant_store::write::{Created, Put, Written};
use serde::{Serialize, Serializer};

use crate::extract::entity_tag::entity_tag;
use crate::middleware::context::RequestContext;

#[derive(Serialize)]
pub(crate) struct WriteAnswer {
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    #[serde(serialize_with = "as_object")]
    headers: Vec<(HeaderName, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Plant>,
}

impl WriteAnswer {
    pub(crate) fn of(written: Written, context: &RequestContext) -> Self {
        let location = |id| (header::LOCATION, context.plant_path(id));
        match written {
            Written::Created(Created { stored, is_current }) => {
                // The entity tag of a later revision would not match the plant in this answer.
                let entity_tag = is_current.then(|| entity_tag(stored.revision));
                let headers = entity_tag.into_iter().chain([location(stored.id)]).collect();
                Self { status: StatusCode::OK, headers, body: Some(stored.plant) }
            }
            Written::Put(Put { stored, is_new }) => {
                let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
                let location = is_new.then(|| location(stored.id));
                let headers = [entity_tag(stored.revision)].into_iter().chain(location).collect();
                Self { status, headers, body: Some(stored.plant) }
            }
            Written::Patched(stored) => {
                let headers = vec![entity_tag(stored.revision)];
                Self { status: StatusCode::OK, headers, body: Some(stored.plant) }
            }
            Written::Deleted => {
                Self { status: StatusCode::NO_CONTENT, headers: Vec::new(), body: None }
            }
        }
    }
}

impl From<WriteAnswer> for HttpResponse {
    fn from(answer: WriteAnswer) -> Self {
        let mut response = Self::build(answer.status);
        for header in answer.headers {
            response.insert_header(header);
        }
        match answer.body {
            Some(plant) => response.json(plant),
            None => response.finish(),
        }
    }
}

fn as_number<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    status.as_u16().serialize(serializer)
}

/// An object with the names of the headers as RFC 9110 writes them.
fn as_object<S: Serializer>(
    headers: &[(HeaderName, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let name = |name: &HeaderName| if *name == header::ETAG { "ETag" } else { "Location" };
    serializer.collect_map(headers.iter().map(|(it, value)| (name(it), value)))
}
