//! What the server answered, and the claims about it that many tests make.

use std::fmt;

use serde_json::Value;

use crate::plant::NewPlant;
use crate::store;

/// What the report of an import counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Plants that were not there before.
    pub created: u64,
    /// Plants that were there and were to be replaced.
    pub replaced: u64,
    /// Rows whose plant was there and was to be kept.
    pub skipped: u64,
    /// Rows that were not taken.
    pub failed: u64,
}

/// One answer, whole.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers in the order in which they came, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header that may stand once.
    ///
    /// # Panics
    ///
    /// When the header stands several times.
    #[must_use]
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} stands several times: {self:?}");
        value
    }

    /// The body, read as JSON.
    ///
    /// # Panics
    ///
    /// When the body is not JSON, or is not said to be.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|cause| panic!("the body is no JSON: {cause}: {self:?}"))
    }

    /// Claims a failure with exactly the body that every failure has, and returns its message.
    ///
    /// # Panics
    ///
    /// When the answer is another one.
    #[track_caller]
    pub fn assert_error(&self, status: u16, number: i32) -> String {
        assert_eq!(self.status, status, "wanted {status} with error {number}: {self:?}");
        let body = self.json();
        let members = body.as_object().unwrap_or_else(|| panic!("no object: {self:?}"));
        assert_eq!(members.get("error"), Some(&Value::from(number)), "{self:?}");
        let message = members.get("message").and_then(Value::as_str).unwrap_or_default();
        assert!(!message.trim().is_empty(), "the message says nothing: {self:?}");
        assert_eq!(members.len(), 2, "members beside error and message: {self:?}");
        message.to_owned()
    }

    /// Claims a success whose body is exactly the Plant shape.
    ///
    /// # Panics
    ///
    /// When the answer is another one.
    #[track_caller]
    pub fn assert_plant(&self, name: &str, tag: Option<&str>) {
        self.assert_plant_with(200, name, tag);
    }

    /// Claims that a plant was made where none was: 201, and exactly the Plant shape.
    ///
    /// # Panics
    ///
    /// When the answer is another one.
    #[track_caller]
    pub fn assert_made(&self, name: &str, tag: Option<&str>) {
        self.assert_plant_with(201, name, tag);
    }

    #[track_caller]
    fn assert_plant_with(&self, status: u16, name: &str, tag: Option<&str>) {
        assert_eq!(self.status, status, "{self:?}");
        let mut plant = serde_json::json!({ "name": name });
        if let Some(tag) = tag {
            plant["tag"] = tag.into();
        }
        assert_eq!(self.json(), plant, "{self:?}");
    }

    /// Claims 204 and no body.
    ///
    /// # Panics
    ///
    /// When the answer is another one.
    #[track_caller]
    pub fn assert_no_content(&self) {
        assert_eq!((self.status, self.body.as_slice()), (204, &[][..]), "{self:?}");
        assert_eq!(self.header("content-type"), None, "{self:?}");
    }

    /// Claims a success whose body is a bare array of NewPlant shapes, and returns them.
    ///
    /// # Panics
    ///
    /// When the answer is another one, or an element has another member or a `tag` that is `null`.
    #[must_use]
    #[track_caller]
    pub fn plants(&self) -> Vec<NewPlant> {
        assert_eq!(self.status, 200, "{self:?}");
        let body = self.json();
        let elements = body.as_array().unwrap_or_else(|| panic!("no array: {self:?}"));
        elements.iter().map(NewPlant::from_json).collect()
    }

    /// How many plants there are, where a list says so.
    ///
    /// # Panics
    ///
    /// When it is no number.
    #[must_use]
    #[track_caller]
    pub fn total_count(&self) -> Option<usize> {
        let count = self.header("x-total-count")?;
        Some(count.parse().expect("the total count is a number"))
    }

    /// Where the next page of a list is: the target of the link, which must be a relative one.
    ///
    /// # Panics
    ///
    /// When there is a `Link` that is something else.
    #[must_use]
    #[track_caller]
    pub fn next_page(&self) -> Option<String> {
        let link = self.header("link")?;
        let target = link.strip_prefix('<').and_then(|rest| rest.strip_suffix(">; rel=\"next\""));
        let target = target.unwrap_or_else(|| panic!("no link to a next page: {self:?}"));
        assert!(target.starts_with("/plants?"), "no relative link to plants: {self:?}");
        Some(target.to_owned())
    }

    /// Claims the report of an import with exactly these numbers, and returns the errors it lists,
    /// each with its line and its number.
    ///
    /// # Panics
    ///
    /// When the answer is another one, or an error is not a line, a number and a message.
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
        let errors = errors.as_array().unwrap_or_else(|| panic!("no array of errors: {self:?}"));
        let error = |error: &Value| {
            let members = error.as_object().unwrap_or_else(|| panic!("no object: {self:?}"));
            let message = members.get("message").and_then(Value::as_str).unwrap_or_default();
            assert!(!message.trim().is_empty(), "a message says nothing: {self:?}");
            assert_eq!(members.len(), 3, "other members than three: {self:?}");
            let line = members.get("line").and_then(Value::as_u64);
            let number = members.get("error").and_then(Value::as_i64);
            let both = line.zip(number);
            both.unwrap_or_else(|| panic!("an error without line or number: {self:?}"))
        };
        errors.iter().map(error).collect()
    }

    /// Claims a success whose body is exactly the NewPlant shape.
    ///
    /// # Panics
    ///
    /// When the answer is another one.
    #[track_caller]
    pub fn assert_new_plant(&self, id: i64, name: &str, tag: Option<&str>) {
        assert_eq!(self.status, 200, "plant {id}: {self:?}");
        let mut plant = serde_json::json!({ "id": id, "name": name });
        if let Some(tag) = tag {
            plant["tag"] = tag.into();
        }
        assert_eq!(self.json(), plant, "{self:?}");
    }

    /// The revision that the strong entity tag carries.
    ///
    /// # Panics
    ///
    /// When there is no such tag.
    #[must_use]
    #[track_caller]
    pub fn revision(&self) -> u64 {
        let entity_tag = self.header("etag").unwrap_or_else(|| panic!("no ETag: {self:?}"));
        entity_tag
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .and_then(|revision| revision.parse().ok())
            .unwrap_or_else(|| panic!("{entity_tag} is no strong tag with a revision: {self:?}"))
    }

    /// Claims that it carries the next revision that was given after that of `before`, which is to say
    /// that nothing was written in between. Where the plants are in PostgreSQL, revisions grow with gaps,
    /// and it is the next one of those that are known.
    ///
    /// # Panics
    ///
    /// When it carries another one.
    #[track_caller]
    pub fn assert_next_revision_after(&self, before: &Self) {
        let (revision, before_it) = (self.revision(), before.revision());
        let is_next =
            if store::is_postgres() { revision > before_it } else { revision == before_it + 1 };
        assert!(is_next, "{before:?} {self:?}");
    }
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
