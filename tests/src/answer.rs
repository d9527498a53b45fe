//! Answers of the server, and assertions about them that many tests share.

use std::{fmt, io};

use serde_json::Value;

use crate::event::Event;
use crate::plant::{NewPlant, plant_json};
use crate::server;

const MAX_HEADERS: usize = 64;

/// The counts in the report of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Plants that did not exist before.
    pub created: u64,
    /// Plants that existed and were replaced.
    pub replaced: u64,
    /// Rows whose plant existed and was kept.
    pub skipped: u64,
    /// Rows that were rejected.
    pub failed: u64,
}

/// A whole answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers in the order of their arrival, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Parses the head at the beginning of `bytes`. Returns its length and the answer without its body; `None` while
    /// the head is incomplete.
    pub(crate) fn parse_head(bytes: &[u8]) -> io::Result<Option<(usize, Self)>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let parsed = head.parse(bytes).map_err(|cause| {
            io::Error::other(format!("{cause} in {:?}", String::from_utf8_lossy(bytes)))
        })?;
        let httparse::Status::Complete(length) = parsed else { return Ok(None) };
        let header = |header: &httparse::Header<'_>| {
            let value = String::from_utf8_lossy(header.value).trim().to_owned();
            (header.name.to_ascii_lowercase(), value)
        };
        let headers = head.headers.iter().map(header).collect();
        let status = head.code.expect("a complete head has a status");
        Ok(Some((length, Self { status, headers, body: Vec::new() })))
    }

    pub(crate) fn body_length(&self) -> io::Result<usize> {
        if self.status < 200 || self.status == 204 || self.status == 304 {
            return Ok(0);
        }
        let length = self.header("content-length").and_then(|length| length.parse().ok());
        length.ok_or_else(|| io::Error::other(format!("a body without a length: {self:?}")))
    }

    /// The value of a header that may occur at most once.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} appears more than once: {self:?}");
        value
    }

    /// Parses the body. The `Content-Type` must be that of JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|cause| panic!("the body is not JSON: {cause}: {self:?}"))
    }

    /// Asserts a failure whose body has exactly the members of every failure, and returns its message.
    #[track_caller]
    pub fn assert_error(&self, status: u16, number: i32) -> String {
        assert_eq!(self.status, status, "wanted {status} with error {number}: {self:?}");
        let body = self.json();
        let members = body.as_object().unwrap_or_else(|| panic!("no object: {self:?}"));
        assert_eq!(members.get("error"), Some(&Value::from(number)), "{self:?}");
        let message = message_of(&body);
        assert!(!message.trim().is_empty(), "the message is empty: {self:?}");
        assert_eq!(members.len(), 2, "members beside error and message: {self:?}");
        message.to_owned()
    }

    /// Asserts 200 with exactly the Plant shape.
    #[track_caller]
    pub fn assert_plant(&self, name: &str, tag: Option<&str>) {
        self.assert_shape(200, &plant_json(None, name, tag));
    }

    /// Asserts 201 with exactly the Plant shape: the plant did not exist before.
    #[track_caller]
    pub fn assert_made(&self, name: &str, tag: Option<&str>) {
        self.assert_shape(201, &plant_json(None, name, tag));
    }

    /// Asserts 200 with exactly the NewPlant shape.
    #[track_caller]
    pub fn assert_new_plant(&self, id: i64, name: &str, tag: Option<&str>) {
        self.assert_shape(200, &plant_json(Some(id), name, tag));
    }

    #[track_caller]
    fn assert_shape(&self, status: u16, body: &Value) {
        assert_eq!(self.status, status, "wanted {body}: {self:?}");
        assert_eq!(self.json(), *body, "{self:?}");
    }

    /// Asserts 204 without a body.
    #[track_caller]
    pub fn assert_no_content(&self) {
        assert_eq!((self.status, self.body.as_slice()), (204, &[][..]), "{self:?}");
        assert_eq!(self.header("content-type"), None, "{self:?}");
    }

    /// Asserts 200 with a bare array of exactly the NewPlant shape, and returns the plants.
    #[track_caller]
    pub fn plants(&self) -> Vec<NewPlant> {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
            .as_array()
            .expect("an array of plants")
            .iter()
            .map(NewPlant::from_json)
            .collect()
    }

    /// The number of plants that a list announces.
    #[track_caller]
    pub fn total_count(&self) -> Option<usize> {
        let count = self.header("x-total-count")?;
        Some(count.parse().expect("the total count is a number"))
    }

    /// The target of the link to the next page of a list. The target must be relative.
    #[track_caller]
    pub fn next_page(&self) -> Option<String> {
        self.linked("next", "/plants?")
    }

    /// `X-Searched-To`: the last id that was searched for a page that ends at the bound on its work.
    #[track_caller]
    pub fn searched_to(&self) -> Option<i64> {
        let id = self.header("x-searched-to")?;
        Some(id.parse().expect("an id"))
    }

    /// Asserts 200 with a bare array of exactly the TagCount shape, and returns each tag with the number of its plants.
    #[track_caller]
    pub fn tags(&self) -> Vec<(String, u64)> {
        assert_eq!(self.status, 200, "{self:?}");
        let tag_count = |value: &Value| {
            assert_eq!(value.as_object().map(|members| members.len()), Some(2), "{self:?}");
            let tag = value["tag"].as_str().expect("a text").to_owned();
            (tag, value["plants"].as_u64().expect("a number"))
        };
        self.json().as_array().expect("an array of tags").iter().map(tag_count).collect()
    }

    /// The target of the link to the next page of tags. The target must be relative.
    #[track_caller]
    pub fn next_tags(&self) -> Option<String> {
        self.linked("next", "/tags?")
    }

    /// Asserts 200 with a bare array of events, and returns them.
    #[track_caller]
    pub fn events(&self) -> Vec<Event> {
        assert_eq!(self.status, 200, "{self:?}");
        self.json().as_array().expect("an array of events").iter().map(Event::from_json).collect()
    }

    /// The target of the link to the page of older changes of a plant. The target must be relative.
    #[track_caller]
    pub fn next_changes(&self) -> Option<String> {
        self.linked("next", "/plants/")
    }

    /// The target of the link to the next page of events. Every page has one, and it must be relative.
    #[track_caller]
    pub fn next_events(&self) -> String {
        let link = self.linked("next", "/events?");
        link.unwrap_or_else(|| panic!("no link: {self:?}"))
    }

    /// The cursor in [`Self::next_events`].
    #[track_caller]
    pub fn next_cursor(&self) -> String {
        let link = self.next_events();
        let parameters = link.split(['?', '&']);
        let mut cursors = parameters.filter_map(|parameter| parameter.strip_prefix("after="));
        cursors.next().unwrap_or_else(|| panic!("no cursor: {link}")).to_owned()
    }

    /// The cursor after which events tell of the changes that this list or export does not show.
    #[track_caller]
    pub fn events_after(&self) -> String {
        let cursor = self.header("x-events-after");
        cursor.unwrap_or_else(|| panic!("no X-Events-After: {self:?}")).to_owned()
    }

    /// The target of the link to the page before this one in a list.
    #[track_caller]
    pub fn previous_page(&self) -> Option<String> {
        self.linked("prev", "/plants?")
    }

    /// The target of the link with this relation. The target must be relative.
    #[track_caller]
    fn linked(&self, relation: &str, begin: &str) -> Option<String> {
        let link = |link: &str| {
            let parts = link.strip_prefix('<').and_then(|rest| rest.strip_suffix('"'));
            let (target, relation) = parts.and_then(|rest| rest.split_once(">; rel=\""))?;
            Some((target.to_owned(), relation.to_owned()))
        };
        let links: Option<Vec<_>> = self.header("link")?.split(", ").map(link).collect();
        let links = links.unwrap_or_else(|| panic!("not links: {self:?}"));
        let mut targets = links.into_iter().filter(|(_, it)| it == relation);
        let (target, _) = targets.next()?;
        assert!(target.starts_with(begin), "no relative link to {begin}: {self:?}");
        assert_eq!(targets.next(), None, "two links of one relation: {self:?}");
        Some(target)
    }

    /// Asserts the report of an import with exactly these counts. Returns the line and the number of each listed
    /// error.
    #[track_caller]
    pub fn assert_report(&self, wanted: Counts) -> Vec<(u64, i64)> {
        assert_eq!(self.status, 200, "{self:?}");
        let mut report = self.json();
        let members = report.as_object_mut().unwrap_or_else(|| panic!("no object: {self:?}"));
        let errors = members.remove("errors").unwrap_or_else(|| panic!("no errors: {self:?}"));
        let Counts { created, replaced, skipped, failed } = wanted;
        let counts = serde_json::json!({
            "created": created, "replaced": replaced, "skipped": skipped, "failed": failed,
        });
        assert_eq!(report, counts, "{self:?}");
        let error = |error: &Value| {
            assert!(!message_of(error).trim().is_empty(), "a message is empty: {self:?}");
            assert_eq!(error.as_object().map(|members| members.len()), Some(3), "{self:?}");
            let line = error["line"].as_u64().zip(error["error"].as_i64());
            line.unwrap_or_else(|| panic!("an error without line or number: {self:?}"))
        };
        errors.as_array().expect("an array of errors").iter().map(error).collect()
    }

    /// The revision that the strong entity tag carries.
    #[track_caller]
    pub fn revision(&self) -> u64 {
        let entity_tag = self.header("etag").unwrap_or_else(|| panic!("no ETag: {self:?}"));
        entity_tag
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .and_then(|revision| revision.parse().ok())
            .unwrap_or_else(|| panic!("{entity_tag} is no strong tag with a revision: {self:?}"))
    }

    /// Asserts that nothing was written between `before` and this answer: the revision is the next one. Revisions in
    /// PostgreSQL have gaps, so there it must only be greater.
    #[track_caller]
    pub fn assert_next_revision_after(&self, before: &Self) {
        let (revision, before_it) = (self.revision(), before.revision());
        let is_next =
            if server::is_on_postgres() { revision > before_it } else { revision == before_it + 1 };
        assert!(is_next, "{before:?} {self:?}");
    }
}

fn message_of(error: &Value) -> &str {
    error["message"].as_str().unwrap_or_default()
}

impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HTTP {}", self.status)?;
        for (name, value) in &self.headers {
            write!(formatter, " | {name}: {value}")?;
        }
        write!(formatter, " | {}", String::from_utf8_lossy(&self.body))
    }
}
