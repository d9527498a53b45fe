//! The body of a batch: an object with requests, each as a client would send it alone.

use std::fmt;

use actix_http::Payload;
use actix_http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest};
use futures_util::future::LocalBoxFuture;
use plant_domain::{NewPlant, PlantId};
use plant_store::write::Write;
use plant_store::{BATCH_MAX_WRITES, IdempotencyDigest};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::answers::{AnswerMemory, Room};
use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::{BodyLimits, read_whole};
use crate::extract::entity_tag::preconditions;
use crate::extract::head::FromHead as _;
use crate::extract::idempotency_key::{self, IdempotencyKey};
use crate::extract::json::JsonResource;
use crate::extract::media_type::JSON;
use crate::extract::members::{Members, what, wrong_syntax};
use crate::extract::query::{NoQuery, read_id};
use crate::middleware::context::RequestContext;
use crate::server::deadlines::ROOM_DEADLINE;

/// The headers that a request of a batch may have.
const HEADERS: [&str; 3] = ["If-Match", "If-None-Match", "Idempotency-Key"];

/// A batch of writes, and the memory for the batch and its answer.
pub(crate) struct BatchRequest {
    pub(crate) writes: Vec<Write>,
    pub(crate) idempotency: Option<IdempotencyDigest>,
    pub(crate) room: Room,
}

impl FromRequest for BatchRequest {
    type Error = Failure;
    type Future = LocalBoxFuture<'static, Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let context = RequestContext::of(request);
        let memory = request.app_data::<Data<AnswerMemory>>().cloned();
        let of_head = NoQuery::read(request).and_then(|_| {
            let IdempotencyKey(key) = IdempotencyKey::read(request)?;
            Ok((key, BodyLimits::BATCH.most_bytes(request.headers())?))
        });
        let reading = read_whole(request, payload, &[JSON], BodyLimits::BATCH);
        Box::pin(async move {
            let ((key, most_bytes), reading) = (of_head?, reading?);
            let memory = memory.ok_or(ErrorNumber::Internal)?;
            // The body, the writes and the answer have about the same size.
            let room = memory.room_for(1, 2 * most_bytes, ROOM_DEADLINE).await?;
            let body = reading.await?;
            let writes = read(&body)?;
            context.record_batch(writes.len());
            // The token may have been revoked while the body arrived.
            context.check_still_valid()?;
            let idempotency = key.map(|key| IdempotencyDigest::of_batch(&key, &body));
            Ok(Self { writes, idempotency, room })
        })
    }
}

/// Reads the writes of a batch.
pub(crate) fn read(body: &[u8]) -> Result<Vec<Write>, Failure> {
    // Syntax comes before shape, and shape before content.
    serde_json::from_slice::<IgnoredAny>(body).map_err(|cause| wrong_syntax(&cause))?;
    let batch: BatchText<'_> = serde_json::from_slice(body).map_err(|cause| wrong_shape(&cause))?;
    if !(1..=BATCH_MAX_WRITES).contains(&batch.requests.len()) {
        let message = format!("requests must have 1 to {BATCH_MAX_WRITES} elements");
        return Err(Failure::new(ErrorNumber::WrongShape, message));
    }
    let requests = batch.requests.into_iter().enumerate();
    requests.map(|(index, text)| write(text).map_err(|failure| failure.of_request(index))).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchText<'a> {
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestText<'a> {
    method: String,
    path: String,
    #[serde(default)]
    headers: Headers,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

fn write(text: &RawValue) -> Result<Write, Failure> {
    let request: RequestText<'_> =
        serde_json::from_str(text.get()).map_err(|cause| wrong_shape(&cause))?;
    let RequestText { method, path, headers, body } = request;
    let headers = headers.into_map()?;
    if path.contains('?') {
        return Err(ErrorNumber::WrongParameter.into());
    }
    if (&*method, &*path) == ("POST", "/plants") {
        let new_plant: NewPlant = resource(body, None)?;
        let key = idempotency_key::read(&headers)?;
        let idempotency = key.map(|key| IdempotencyDigest::new(&key, &new_plant));
        return Ok(Write::Create(new_plant, idempotency));
    }
    let of_plant = path.strip_prefix("/plants/").filter(|id| !id.contains('/'));
    let (Some(id), "PUT" | "PATCH" | "DELETE") = (of_plant, &*method) else {
        return Err(Failure::new(
            ErrorNumber::NoSuchPath,
            "a request of a batch is POST of /plants, or PUT, PATCH or DELETE of /plants/{id}",
        ));
    };
    let (id, preconditions) = (read_id("id", id)?, preconditions(&headers)?);
    Ok(match &*method {
        "PUT" => {
            let plant: plant_domain::Plant = resource(body, Some(id))?;
            Write::Put(plant.with_id(id), preconditions)
        }
        "PATCH" => Write::Patch(id, resource(body, Some(id))?, preconditions),
        _ => Write::Delete(id, preconditions),
    })
}

fn resource<T: JsonResource>(
    body: Option<&RawValue>,
    id_in_path: Option<PlantId>,
) -> Result<T, Failure> {
    let body = body.ok_or_else(|| Failure::new(ErrorNumber::WrongShape, "body is missing"))?;
    T::from_members(Members::read(body.get().as_bytes())?, id_in_path)
}

fn wrong_shape(cause: &serde_json::Error) -> Failure {
    Failure::new(ErrorNumber::WrongShape, what(cause))
}

/// The headers of a request, in their order.
#[derive(Default)]
struct Headers(Vec<(String, String)>);

impl Headers {
    fn into_map(self) -> Result<HeaderMap, Failure> {
        let wrong = |message: String| Failure::new(ErrorNumber::WrongHeader, message);
        let mut headers = HeaderMap::new();
        for (name, value) in self.0 {
            if !HEADERS.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                let known = HEADERS.join(", ");
                return Err(wrong(format!("a request of a batch has the headers {known} alone")));
            }
            let parsed = (HeaderName::try_from(&name).ok(), HeaderValue::from_str(&value).ok());
            let (Some(known), Some(value)) = parsed else {
                return Err(wrong(format!("{name:.64} is no value of a header")));
            };
            headers.append(known, value);
        }
        Ok(headers)
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeadersVisitor;

        impl<'de> Visitor<'de> for HeadersVisitor {
            type Value = Headers;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of headers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut headers = Vec::new();
                while let Some(header) = map.next_entry()? {
                    headers.push(header);
                }
                Ok(Headers(headers))
            }
        }

        deserializer.deserialize_map(HeadersVisitor)
    }
}
