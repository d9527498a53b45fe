//! Entity tags, which name revisions of a plant or of a file, and preconditions on them.

use actix_http::header::{self, HeaderMap, HeaderName, HeaderValue};
use plant_store::{Preconditions, Revision, Revisions};

use crate::decimal::{INTEGER_MAX_CHARACTERS, push_integer};
use crate::errors::{ErrorNumber, Failure};
use crate::limits::ENTITY_TAGS_MAX;

/// The plant's revision as a strong entity tag (RFC 9110, section 8.8.3).
pub(crate) fn entity_tag(revision: Revision) -> String {
    let mut text = String::with_capacity(INTEGER_MAX_CHARACTERS + 2);
    text.push('"');
    push_integer(&mut text, revision.get());
    text.push('"');
    text
}

/// The preconditions of a request (RFC 9110, sections 13.1.1 and 13.1.2).
pub(crate) fn preconditions(headers: &HeaderMap) -> Result<Preconditions, Failure> {
    Ok(Preconditions {
        // Weak tags are never equal to anything in the strong comparison of If-Match.
        if_match: revisions(headers, header::IF_MATCH, |tag| !tag.is_weak)?,
        if_none_match: revisions(headers, header::IF_NONE_MATCH, |_| true)?,
    })
}

/// Whether `If-None-Match` names the entity tag with this text: the client already has the file.
pub(crate) fn if_none_match_names(headers: &HeaderMap, opaque: &[u8]) -> Result<bool, Failure> {
    Ok(match entity_tags(headers, header::IF_NONE_MATCH)? {
        None => false,
        Some(EntityTags::Any) => true,
        Some(EntityTags::OneOf(tags)) => tags.iter().any(|tag| tag.opaque == opaque),
    })
}

/// The revisions in a header, of the tags that can match.
fn revisions(
    headers: &HeaderMap,
    name: HeaderName,
    counts: impl Fn(&EntityTag<'_>) -> bool,
) -> Result<Option<Revisions>, Failure> {
    Ok(entity_tags(headers, name)?.map(|tags| match tags {
        EntityTags::Any => Revisions::Any,
        EntityTags::OneOf(tags) => {
            let counted = tags.iter().filter(|tag| counts(tag));
            Revisions::OneOf(counted.filter_map(EntityTag::revision).collect())
        }
    }))
}

/// The entity tags in a header; `None` without the header. A list without tags is one: `If-Match` then matches nothing, and
/// `If-None-Match` excludes nothing (RFC 9110, sections 5.6.1.2, 13.1.1 and 13.1.2).
fn entity_tags(headers: &HeaderMap, name: HeaderName) -> Result<Option<EntityTags<'_>>, Failure> {
    let values: Vec<&HeaderValue> = headers.get_all(&name).collect();
    if values.is_empty() {
        return Ok(None);
    }
    if matches!(values[..], [any] if any.as_bytes().trim_ascii() == b"*") {
        return Ok(Some(EntityTags::Any));
    }
    let mut tags = Vec::new();
    let all_read = values.iter().all(|value| read_list(value.as_bytes(), &mut tags).is_some());
    if !all_read || tags.len() > ENTITY_TAGS_MAX {
        return Err(Failure::new(
            ErrorNumber::WrongHeader,
            format!(
                "{} must be `*`, or at most {ENTITY_TAGS_MAX} entity tags in double quotes with commas \
                 in between, such as \"7\"; send the ETag of an answer as it came",
                if name == header::IF_MATCH { "If-Match" } else { "If-None-Match" },
            ),
        ));
    }
    Ok(Some(EntityTags::OneOf(tags)))
}

enum EntityTags<'a> {
    Any,
    OneOf(Vec<EntityTag<'a>>),
}

struct EntityTag<'a> {
    is_weak: bool,
    opaque: &'a [u8],
}

impl EntityTag<'_> {
    /// The revision whose entity tag this is; `None` for a tag that no plant can have.
    fn revision(&self) -> Option<Revision> {
        let text = std::str::from_utf8(self.opaque).ok()?;
        let sequence: u64 = text.parse().ok()?;
        (sequence.to_string() == text).then(|| Revision::from(sequence))
    }
}

/// Reads a list of entity tags. Elements may be empty (RFC 9110, section 5.6.1.2).
fn read_list<'a>(value: &'a [u8], tags: &mut Vec<EntityTag<'a>>) -> Option<()> {
    let mut rest = value.trim_ascii();
    loop {
        if !rest.is_empty() && !rest.starts_with(b",") {
            let behind_weak_mark = rest.strip_prefix(b"W/");
            let opened = behind_weak_mark.unwrap_or(rest).strip_prefix(b"\"")?;
            let end = opened.iter().position(|byte| *byte == b'"')?;
            let (opaque, closed) = opened.split_at(end);
            let is_etagc = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
            if !opaque.iter().all(is_etagc) {
                return None;
            }
            tags.push(EntityTag { is_weak: behind_weak_mark.is_some(), opaque });
            rest = closed[1..].trim_ascii_start();
        }
        if rest.is_empty() {
            return Some(());
        }
        rest = rest.strip_prefix(b",")?.trim_ascii_start();
    }
}
