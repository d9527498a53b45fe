//! JSON bodies, read as the resources of the domain. All JSON from clients is parsed here.
//!
//! Syntax comes before shape: a body that is not JSON to its end is refused as such, regardless of its members. Then
//! one message names everything that is wrong with the members. A derived deserializer stops at the first problem, so
//! the members are first taken as raw JSON text ([`Members`]), and then converted one by one.

use std::borrow::Cow;

use actix_http::Payload;
use actix_web::{FromRequest, HttpRequest};
use futures_util::future::LocalBoxFuture;
use plant_domain::{
    NewPlant, Plant, PlantChanges, PlantId, PlantPatch, PlantRef, TextPatch, Violations,
};
use serde_json::value::RawValue;

use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::{BodyLimits, WholeBody};
use crate::extract::media_type::{JSON, MERGE_PATCH};
use crate::extract::members::{Member, Members, text_of};
use crate::extract::target::id_in_path;
use crate::middleware::context::RequestContext;

/// The body of a request as a resource of the domain, which follows its rules.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: JsonResource> FromRequest for Json<T> {
    type Error = Failure;
    type Future = LocalBoxFuture<'static, Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let body = WholeBody::new(request, payload, T::MEDIA_TYPES, BodyLimits::RESOURCE);
        // The extractor of the target refuses a path whose id is malformed.
        let id_in_path = id_in_path(request).and_then(|id| id.parse().ok());
        let context = RequestContext::of(request);
        Box::pin(async move {
            let body = body?.read_to_end().await?;
            let resource = T::from_members(Members::read(&body)?, id_in_path)?;
            // The body may have taken long to arrive, and the token may have been revoked in the meantime.
            context.check_still_valid()?;
            Ok(Self(resource))
        })
    }
}

/// A resource that can be parsed from JSON.
pub(crate) trait JsonResource: Sized + 'static {
    /// The content types that its operation takes.
    const MEDIA_TYPES: &'static [&'static str];

    /// Reads it from the members of an object, where the path has this id.
    fn from_members(members: Members<'_>, id_in_path: Option<PlantId>) -> Result<Self, Failure>;
}

/// Reads a resource for a path without an id.
pub(crate) fn read<T: JsonResource>(text: &[u8]) -> Result<T, Failure> {
    T::from_members(Members::read(text)?, None)
}

/// The specification's section "NewPlant". Unknown members are ignored, and an absent tag may be `null`.
impl JsonResource for NewPlant {
    const MEDIA_TYPES: &'static [&'static str] = &[JSON];

    fn from_members(members: Members<'_>, _id_in_path: Option<PlantId>) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let id = required("id", members.id, integer, &mut problems);
        match (id, plant(members, &mut problems)) {
            (Some(id), Some(plant)) => Ok(plant?.with_id(id.into())),
            _ => Err(wrong_shape(problems.join("; "))),
        }
    }
}

/// The specification's section "Plant". An id in it must be that of the path.
impl JsonResource for Plant {
    const MEDIA_TYPES: &'static [&'static str] = &[JSON];

    fn from_members(members: Members<'_>, id_in_path: Option<PlantId>) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let id = if_present("id", members.id, integer, &mut problems);
        match plant(members, &mut problems) {
            Some(plant) => checked(id, id_in_path, plant),
            None => Err(wrong_shape(problems.join("; "))),
        }
    }
}

/// A merge patch (RFC 7396): an absent member stays unchanged, and `null` removes the tag. An id in it must be that
/// of the path.
impl JsonResource for PlantPatch {
    const MEDIA_TYPES: &'static [&'static str] = &[MERGE_PATCH, JSON];

    fn from_members(members: Members<'_>, id_in_path: Option<PlantId>) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let id = if_present("id", members.id, integer, &mut problems);
        let [name, tag] = members.texts;
        let name = if_present("name", name, text, &mut problems).map(Cow::into_owned);
        let tag = text_patch("tag", tag, &mut problems);
        if !problems.is_empty() {
            return Err(wrong_shape(problems.join("; ")));
        }
        checked(id, id_in_path, PlantChanges { name, tag }.check())
    }
}

/// The plant with these members; `None` if there is a problem with one of them, or has been one before.
fn plant(members: Members<'_>, problems: &mut Vec<String>) -> Option<Result<Plant, Violations>> {
    let [name, tag] = members.texts;
    let name = required("name", name, text, problems);
    let tag = if_present("tag", tag, text_or_null, problems).flatten();
    let name = name.filter(|_| problems.is_empty())?;
    Some(PlantRef { name: &name, tag: tag.as_deref() }.to_plant())
}

/// What a merge patch does with a member that a plant may lack.
fn text_patch(name: &str, member: Member<'_>, problems: &mut Vec<String>) -> TextPatch {
    match if_present(name, member, text_or_null, problems) {
        None => TextPatch::Keep,
        Some(None) => TextPatch::Remove,
        Some(Some(text)) => TextPatch::Set(text.into_owned()),
    }
}

/// The value of a member that may be absent. What is wrong with it goes to `problems`.
pub(super) fn if_present<'a, T>(
    name: &str,
    member: Member<'a>,
    convert: impl Fn(&'a RawValue) -> Result<T, &'static str>,
    problems: &mut Vec<String>,
) -> Option<T> {
    match member {
        Member::Absent => None,
        Member::Repeated => {
            problems.push(format!("{name} appears more than once"));
            None
        }
        Member::Once(value) => {
            convert(value).map_err(|must_be| problems.push(format!("{name} {must_be}"))).ok()
        }
    }
}

/// The value of a member that must be there. What is wrong with it goes to `problems`.
pub(super) fn required<'a, T>(
    name: &str,
    member: Member<'a>,
    convert: impl Fn(&'a RawValue) -> Result<T, &'static str>,
    problems: &mut Vec<String>,
) -> Option<T> {
    if matches!(member, Member::Absent) {
        problems.push(format!("{name} is missing"));
    }
    if_present(name, member, convert, problems)
}

/// The integer; as the error, a description of valid values.
fn integer(value: &RawValue) -> Result<i64, &'static str> {
    let value = value.get();
    if !value.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err("must be an integer");
    }
    if value.contains(['.', 'e', 'E']) {
        return Err("must be an integer, without a fraction or an exponent");
    }
    value.parse().map_err(|_| "must be an integer within int64")
}

/// The text; as the error, a description of valid values.
pub(super) fn text(value: &RawValue) -> Result<Cow<'_, str>, &'static str> {
    text_of(value).ok_or("must be a string")
}

fn text_or_null(value: &RawValue) -> Result<Option<Cow<'_, str>>, &'static str> {
    if value.get() == "null" { Ok(None) } else { text(value).map(Some) }
}

pub(super) fn wrong_shape(message: impl Into<String>) -> Failure {
    Failure::new(ErrorNumber::WrongShape, message)
}

/// The resource, if it follows the rules and an id that was sent with it is that of the path.
fn checked<T>(
    sent_id: Option<i64>,
    id_in_path: Option<PlantId>,
    resource: Result<T, Violations>,
) -> Result<T, Failure> {
    let other_id = id_in_path.filter(|id| sent_id.is_some_and(|sent_id| sent_id != id.get()));
    let wrong_id = other_id.map(|id| format!("id must be {id}, as in the path, or be left out"));
    match (resource, wrong_id) {
        (Ok(resource), None) => Ok(resource),
        (resource, wrong_id) => {
            let violations = resource.err().map(|violations| violations.to_string());
            let problems: Vec<String> = wrong_id.into_iter().chain(violations).collect();
            Err(Failure::new(ErrorNumber::RuleBroken, problems.join("; ")))
        }
    }
}
