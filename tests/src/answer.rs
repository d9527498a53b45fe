//! What the server answered, and the claims about it that many tests make.

use std::fmt;

use serde_json::Value;

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
        assert_eq!(self.status, 200, "{self:?}");
        let mut plant = serde_json::json!({ "name": name });
        if let Some(tag) = tag {
            plant["tag"] = tag.into();
        }
        assert_eq!(self.json(), plant, "{self:?}");
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
