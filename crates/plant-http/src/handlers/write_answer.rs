//! The answer to a write of one plant: of a request of its own, and in a batch.

use actix_http::StatusCode;
use actix_http::header;
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
    headers: AnswerHeaders,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Plant>,
}

#[derive(Serialize)]
struct AnswerHeaders {
    #[serde(rename = "ETag", skip_serializing_if = "Option::is_none")]
    entity_tag: Option<String>,
    #[serde(rename = "Location", skip_serializing_if = "Option::is_none")]
    location: Option<String>,
}

impl WriteAnswer {
    pub(crate) fn of(written: Written, context: &RequestContext) -> Self {
        let (status, stored, has_tag, is_new) = match written {
            // The entity tag of a later revision would not match the plant in this answer.
            Written::Created(Created { stored, is_current }) => {
                (StatusCode::OK, stored, is_current, true)
            }
            Written::Put(Put { stored, is_new: true }) => (StatusCode::CREATED, stored, true, true),
            Written::Put(Put { stored, is_new: false }) | Written::Patched(stored) => {
                (StatusCode::OK, stored, true, false)
            }
            Written::Deleted => {
                let headers = AnswerHeaders { entity_tag: None, location: None };
                return Self { status: StatusCode::NO_CONTENT, headers, body: None };
            }
        };
        let headers = AnswerHeaders {
            entity_tag: has_tag.then(|| entity_tag(stored.revision)),
            location: is_new.then(|| context.plant_path(stored.id)),
        };
        Self { status, headers, body: Some(stored.plant) }
    }
}

impl From<WriteAnswer> for HttpResponse {
    fn from(answer: WriteAnswer) -> Self {
        let mut response = Self::build(answer.status);
        let AnswerHeaders { entity_tag, location } = answer.headers;
        for header in [(header::ETAG, entity_tag), (header::LOCATION, location)] {
            if let (name, Some(value)) = header {
                response.insert_header((name, value));
            }
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
