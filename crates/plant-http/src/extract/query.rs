//! Query parameters.

use std::collections::BTreeSet;
use std::fmt::Display;

use actix_web::HttpRequest;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use plant_domain::{PlantFilter, PlantId, Violations, check_tag, check_tag_prefix};
use plant_store::{
    OnConflict, Page, PagePlace, PageRequest, Revision, TagPageRequest, UnknownOnConflict,
};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::head::FromHead;
use crate::extract::transfer_format::ImportFormat;
use crate::limits::{
    IDS_MAX, PAGE_DEFAULT_CHANGES, PAGE_DEFAULT_PLANTS, PAGE_DEFAULT_TAGS, PAGE_MAX_CHANGES,
    PAGE_MAX_PLANTS, PAGE_MAX_TAGS,
};

/// Encodes everything but the unreserved characters of RFC 3986, section 2.3.
const ALL_BUT_UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// No query parameter, for operations that define none (specification, section "Create plant", rule 3). A parameter
/// that is silently ignored would hide a client's mistake.
pub(crate) struct NoQuery;

impl FromHead for NoQuery {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        match request.query_string() {
            "" => Ok(Self),
            _ => Err(ErrorNumber::WrongParameter.into()),
        }
    }
}

/// Which plants a list has.
pub(crate) enum ListQuery {
    /// Those with these ids.
    Ids(BTreeSet<PlantId>),
    Page(PageQuery),
}

/// The page of a list, and its filter.
pub(crate) struct PageQuery {
    pub(crate) page_request: PageRequest,
    /// The filter as the client wrote it.
    name: Option<String>,
    tag: Option<String>,
}

impl ListQuery {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let [ids, limit, after, before, tag, name] =
            query(text, ["ids", "limit", "after", "before", "tag", "name"])?;
        if let Some(ids) = ids {
            let has_more = [limit, after, before, tag, name].iter().any(Option::is_some);
            return if has_more { Err(wrong("ids is sent alone")) } else { read_ids(&ids) };
        }
        let place = match (after, before) {
            (None, None) => PagePlace::First,
            (Some(after), None) => PagePlace::After(read_id("after", &after)?),
            (None, Some(before)) => PagePlace::Before(read_id("before", &before)?),
            (Some(_), Some(_)) => return Err(wrong("send after or before, not both")),
        };
        let page_request = PageRequest {
            filter: read_filter(tag.clone(), name.as_deref())?,
            place,
            limit: read_limit(limit, PAGE_DEFAULT_PLANTS, PAGE_MAX_PLANTS)?,
        };
        Ok(Self::Page(PageQuery { page_request, name, tag }))
    }
}

fn read_ids(text: &str) -> Result<ListQuery, Failure> {
    let ids: Vec<&str> = text.split(',').collect();
    if ids.len() > IDS_MAX {
        return Err(wrong(format!("ids must be 1 to {IDS_MAX} ids with commas in between")));
    }
    let ids = ids.into_iter().map(|id| read_id("ids", id));
    ids.collect::<Result<_, _>>().map(ListQuery::Ids)
}

impl PageQuery {
    /// The neighbors of a page that this query has found, each with its relation to the page. The next one comes first, for
    /// clients that read only one link.
    pub(crate) fn links(&self, page: &Page) -> impl Iterator<Item = (PagePlace, &'static str)> {
        let first = page.plants().next().map(|(plant, _)| plant.id);
        let last = page.plants().last().map(|(plant, _)| plant.id);
        let (previous, next) = match self.page_request.place {
            PagePlace::First => (None, page.next.map(PagePlace::After)),
            PagePlace::After(id) => {
                let first = first.or_else(|| id.next());
                (first.map(PagePlace::Before), page.next.map(PagePlace::After))
            }
            PagePlace::Before(id) => {
                let last = last.or_else(|| id.previous());
                (page.next.map(PagePlace::Before), Some(PagePlace::after(last)))
            }
        };
        let (previous, next) = (previous.map(|it| (it, "prev")), next.map(|it| (it, "next")));
        next.into_iter().chain(previous)
    }

    /// The query of the page at another place, with the same filter and limit.
    pub(crate) fn at(&self, place: PagePlace) -> String {
        let mut query = format!("limit={}", self.page_request.limit);
        match place {
            PagePlace::First => {}
            PagePlace::After(id) => query.push_str(&format!("&after={id}")),
            PagePlace::Before(id) => query.push_str(&format!("&before={id}")),
        }
        for (parameter, value) in [("tag", &self.tag), ("name", &self.name)] {
            if let Some(value) = value {
                query.push_str(&format!("&{parameter}={}", encode(value)));
            }
        }
        query
    }
}

impl FromHead for ListQuery {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        Self::parse(request.query_string())
    }
}

/// The page of a history.
pub(crate) struct HistoryQuery {
    pub(crate) before: Option<Revision>,
    pub(crate) limit: usize,
}

impl FromHead for HistoryQuery {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        let [limit, before] = query(request.query_string(), ["limit", "before"])?;
        Ok(Self {
            before: before.map(|before| read_revision("before", &before)).transpose()?,
            limit: read_limit(limit, PAGE_DEFAULT_CHANGES, PAGE_MAX_CHANGES)?,
        })
    }
}

/// The revision that a read of a plant asks for; `None` for the current one.
pub(crate) fn revision(text: &str) -> Result<Option<Revision>, Failure> {
    let [revision] = query(text, ["revision"])?;
    revision.map(|revision| read_revision("revision", &revision)).transpose()
}

/// Which plants an export has.
pub(crate) struct FilterQuery(pub(crate) PlantFilter);

impl FromHead for FilterQuery {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        let [tag, name] = query(request.query_string(), ["tag", "name"])?;
        read_filter(tag, name.as_deref()).map(Self)
    }
}

fn read_filter(tag: Option<String>, name: Option<&str>) -> Result<PlantFilter, Failure> {
    PlantFilter::new(name, tag).map_err(|violations| wrong(violations.to_string()))
}

/// The page of a list of tags, and the beginning that they share.
pub(crate) struct TagQuery {
    pub(crate) page_request: TagPageRequest,
}

impl TagQuery {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let [limit, after, prefix] = query(text, ["limit", "after", "prefix"])?;
        let wrong_after = |violations: Violations| wrong(format!("after: {violations}"));
        after.as_deref().map_or(Ok(()), check_tag).map_err(wrong_after)?;
        let wrong_prefix = |violations: Violations| wrong(violations.to_string());
        prefix.as_deref().map_or(Ok(()), check_tag_prefix).map_err(wrong_prefix)?;
        let limit = read_limit(limit, PAGE_DEFAULT_TAGS, PAGE_MAX_TAGS)?;
        let prefix = prefix.unwrap_or_default();
        Ok(Self { page_request: TagPageRequest { prefix, after, limit } })
    }

    /// The query of the next page: the same prefix and limit, and the last tag of this page.
    pub(crate) fn next(&self, after: &str) -> String {
        let TagPageRequest { prefix, limit, .. } = &self.page_request;
        let mut next = format!("limit={limit}&after={}", encode(after));
        if !prefix.is_empty() {
            next.push_str(&format!("&prefix={}", encode(prefix)));
        }
        next
    }
}

impl FromHead for TagQuery {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        Self::parse(request.query_string())
    }
}

/// What an import does with an id that is taken, and the format of its body.
pub(crate) struct ImportParameters {
    pub(crate) on_conflict: OnConflict,
    pub(crate) format: ImportFormat,
}

impl FromHead for ImportParameters {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        let on_conflict = on_conflict(request.query_string())?;
        Ok(Self { on_conflict, format: ImportFormat::of_body(request.headers())? })
    }
}

/// The parameter `on_conflict` of an import.
pub(crate) fn on_conflict(text: &str) -> Result<OnConflict, Failure> {
    let [word] = query(text, ["on_conflict"])?;
    let Some(word) = word else { return Ok(OnConflict::default()) };
    let wrong_word = |cause: UnknownOnConflict| wrong(format!("on_conflict is wrong: {cause}"));
    word.parse().map_err(wrong_word)
}

/// The values of the parameters with these names, each of which may appear once. Libraries for forms are too
/// lenient: they replace bytes that are not UTF-8, and keep broken percent-encodings.
pub(super) fn query<const N: usize>(
    text: &str,
    names: [&str; N],
) -> Result<[Option<String>; N], Failure> {
    let mut values = [const { None }; N];
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        // A name that cannot be decoded is unknown.
        let name = decode(name).unwrap_or_else(|| name.to_owned());
        let Some(place) = names.iter().position(|known| *known == name) else {
            let names = names.join(", ");
            return Err(wrong(format!("there is no query parameter {name:.64}; there is {names}")));
        };
        let value = decode(value).ok_or_else(|| {
            wrong(format!("{name} must be UTF-8 with percent-encoding, such as %20 for a space"))
        })?;
        if values[place].replace(value).is_some() {
            return Err(wrong(format!("{name} appears more than once; send it once")));
        }
    }
    Ok(values)
}

/// Encodes a value of a query.
fn encode(value: &str) -> impl Display {
    utf8_percent_encode(value, ALL_BUT_UNRESERVED)
}

/// Decodes a name or a value of a query. `+` is a space, as in a form.
fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    parts.next();
    let is_encoded = |part: &str| part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !parts.all(is_encoded) {
        return None;
    }
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

pub(crate) fn read_id(name: &str, text: &str) -> Result<PlantId, Failure> {
    text.parse().map_err(|refusal| wrong(format!("{name}: {refusal}")))
}

fn read_revision(name: &str, text: &str) -> Result<Revision, Failure> {
    match text.parse::<u64>() {
        Ok(revision @ 1..) if revision.to_string() == text => Ok(Revision::from(revision)),
        _ => Err(wrong(format!(
            "{name} must be a revision, such as 12; send one that the server gave you"
        ))),
    }
}

/// How many things a page has, at least one.
pub(super) fn read_limit(
    limit: Option<String>,
    default: usize,
    most: usize,
) -> Result<usize, Failure> {
    let Some(text) = limit else { return Ok(default) };
    match text.parse() {
        Ok(limit @ 1..) if limit <= most && limit.to_string() == text => Ok(limit),
        _ => Err(wrong_limit(most)),
    }
}

pub(crate) fn wrong_limit(most: usize) -> Failure {
    wrong(format!("limit must be an integer from 1 to {most}"))
}

pub(super) fn wrong(message: impl Into<String>) -> Failure {
    Failure::new(ErrorNumber::WrongParameter, message)
}
