//! The body of a batch: an object with requests, each as a client would send it alone.

use std::fmt;

use actix_http::Payload;
use actix_http::header::{self, HeaderMap, HeaderValue};
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest};
use futures_util::future::LocalBoxFuture;
use percent_encoding::percent_decode_str;
use plant_domain::{NewPlant, Plant, PlantId};
use plant_store::write::Write;
use plant_store::{BATCH_MAX_WRITES, IdempotencyDigest};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::answers::{AnswerMemory, Room};
use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::{BodyLimits, WholeBody, body_too_large};
use crate::extract::entity_tag::preconditions;
use crate::extract::head::FromHead as _;
use crate::extract::idempotency_key::{self, IDEMPOTENCY_KEY, IdempotencyKey};
use crate::extract::json::{JsonResource, if_present, required, text, wrong_shape};
use crate::extract::media_type::JSON;
use crate::extract::members::{Members, as_text, is_object, object, what, wrong_syntax};
use crate::extract::query::{NoQuery, read_id};
use crate::limits::{BODY_MAX_BYTES, PLANT_ANSWER_MAX_BYTES};
use crate::middleware::context::RequestContext;
use crate::server::deadlines::ROOM_DEADLINE;

/// The headers that a request of a batch may have.
const HEADERS: [&str; 3] = ["If-Match", "If-None-Match", "Idempotency-Key"];

/// A batch of writes, with the memory reserved for the request and for the answer.
pub(crate) struct BatchRequest {
    pub(crate) writes: Vec<Write>,
    pub(crate) idempotency: Option<IdempotencyDigest>,
    pub(crate) room: Room,
    pub(crate) answer_room: Room,
}

impl FromRequest for BatchRequest {
    type Error = Failure;
    type Future = LocalBoxFuture<'static, Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let context = RequestContext::of(request);
        let memory = request.app_data::<Data<AnswerMemory>>().cloned();
        let key = NoQuery::read(request).and_then(|_| IdempotencyKey::read(request));
        let body = WholeBody::new(request, payload, &[JSON], BodyLimits::BATCH);
        Box::pin(async move {
            let IdempotencyKey(key) = key?;
            let mut body = body?;
            let memory = memory.ok_or(ErrorNumber::Internal)?;
            // Clients that send nothing must not keep room from others.
            body.read(BODY_MAX_BYTES).await?;
            let room = memory.room_for_batch(body.most_bytes(), ROOM_DEADLINE).await?;
            let body = body.read_to_end().await?;
            let writes = read(&body)?;
            context.record_batch(writes.len());
            // The token may have been revoked while the body arrived.
            context.check_still_valid()?;
            let answer_room =
                memory.room_for(writes.len(), PLANT_ANSWER_MAX_BYTES, ROOM_DEADLINE).await?;
            let idempotency = key.map(|key| IdempotencyDigest::of_batch(&key, &body));
            Ok(Self { writes, idempotency, room, answer_room })
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow, deserialize_with = "elements")]
    requests: Vec<&'a RawValue>,
}

/// Reads the writes of a batch.
pub(crate) fn read(body: &[u8]) -> Result<Vec<Write>, Failure> {
    let body = as_text(body)?;
    // A derived deserializer would take an array for an object.
    let read = match is_object(body) {
        true => serde_json::from_str(body).map_err(|cause| what(&cause)),
        false => Err("a batch must be a JSON object".to_owned()),
    };
    let BatchBody { requests } = read.map_err(|message| {
        // Syntax comes before shape, and shape before content.
        match serde_json::from_str::<IgnoredAny>(body) {
            Ok(IgnoredAny) => wrong_shape(message),
            Err(cause) => wrong_syntax(&cause),
        }
    })?;
    if !(1..=BATCH_MAX_WRITES).contains(&requests.len()) {
        return Err(wrong_shape(format!("requests must have 1 to {BATCH_MAX_WRITES} elements")));
    }
    let requests = requests.into_iter().enumerate();
    requests.map(|(index, text)| write(text).map_err(|failure| failure.of_request(index))).collect()
}

/// Reads a request as the server reads one that is sent alone, with the same failures in the same order.
fn write(request: &RawValue) -> Result<Write, Failure> {
    let members = ["method", "path", "headers", "body"];
    let [method, path, headers, body] =
        object("a request", request.get(), members, str::eq).map_err(wrong_shape)?;
    let mut problems = Vec::new();
    let method = required("method", method, text, &mut problems);
    let path = required("path", path, text, &mut problems);
    let headers = if_present("headers", headers, Ok, &mut problems);
    let body = if_present("body", body, Ok, &mut problems);
    let (Some(method), Some(path), []) = (method, path, &*problems) else {
        return Err(wrong_shape(problems.join("; ")));
    };

    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let id = path.strip_prefix("/plants/").filter(|id| !id.is_empty() && !id.contains('/'));
    let id = match (&*method, id) {
        ("POST", None) if path == "/plants" => None,
        ("PUT" | "PATCH" | "DELETE", Some(id)) => Some(plant_in_path(id)?),
        _ => {
            return Err(Failure::new(
                ErrorNumber::NoSuchPath,
                "a request of a batch is POST of /plants, or PUT, PATCH or DELETE of /plants/{id}",
            ));
        }
    };
    if !query.is_empty() {
        return Err(ErrorNumber::WrongParameter.into());
    }
    let headers = headers.map_or_else(|| Ok(HeaderMap::new()), read_headers)?;
    let Some(id) = id else {
        let key = idempotency_key::read(&headers)?;
        let new_plant: NewPlant = resource(body, None)?;
        let idempotency = key.map(|key| IdempotencyDigest::new(&key, &new_plant));
        return Ok(Write::Create(new_plant, idempotency));
    };
    let preconditions = preconditions(&headers)?;
    Ok(match &*method {
        "PUT" => Write::Put(resource::<Plant>(body, Some(id))?.with_id(id), preconditions),
        "PATCH" => Write::Patch(id, resource(body, Some(id))?, preconditions),
        _ => Write::Delete(id, preconditions),
    })
}

fn plant_in_path(id: &str) -> Result<PlantId, Failure> {
    read_id("id", &percent_decode_str(id).decode_utf8_lossy())
}

fn resource<T: JsonResource>(
    body: Option<&RawValue>,
    id_in_path: Option<PlantId>,
) -> Result<T, Failure> {
    let body = body.ok_or_else(|| wrong_shape("body is missing"))?.get();
    if body.len() > BODY_MAX_BYTES {
        return Err(body_too_large(BODY_MAX_BYTES));
    }
    T::from_members(Members::read(body.as_bytes())?, id_in_path)
}

/// Reads the headers of a request. Their names are the same in upper and lower case.
fn read_headers(headers: &RawValue) -> Result<HeaderMap, Failure> {
    let wrong = |message: String| Failure::new(ErrorNumber::WrongHeader, message);
    let values = object("headers", headers.get(), HEADERS, str::eq_ignore_ascii_case);
    let mut problems = Vec::new();
    let mut headers = HeaderMap::new();
    let fields = [header::IF_MATCH, header::IF_NONE_MATCH, IDEMPOTENCY_KEY];
    for ((name, field), value) in HEADERS.into_iter().zip(fields).zip(values.map_err(wrong)?) {
        let Some(value) = if_present(name, value, text, &mut problems) else { continue };
        match HeaderValue::from_str(&value) {
            Ok(value) => headers.append(field, value),
            Err(_) => problems.push(format!("{name} must be the value of a header")),
        }
    }
    if problems.is_empty() { Ok(headers) } else { Err(wrong(problems.join("; "))) }
}

/// The elements of an array, but at most one more than a batch may have: a body can have millions.
fn elements<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'de RawValue>, D::Error> {
    struct ElementsVisitor;

    impl<'de> Visitor<'de> for ElementsVisitor {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an array of requests")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
            let mut elements = Vec::new();
            while elements.len() <= BATCH_MAX_WRITES
                && let Some(element) = array.next_element()?
            {
                elements.push(element);
            }
            while array.next_element::<IgnoredAny>()?.is_some() {}
            Ok(elements)
        }
    }

    deserializer.deserialize_seq(ElementsVisitor)
}
