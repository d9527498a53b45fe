//! The members of a JSON object as they stand in its text, and what each of them must be.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::errors::{ErrorNumber, Failure};

/// The members of the object that we know, as they stand in the text.
#[derive(Default)]
pub(crate) struct Members<'a> {
    pub(super) id: Occurrence<'a>,
    pub(super) name: Occurrence<'a>,
    pub(super) tag: Occurrence<'a>,
    /// The first of their values, used or not, that is a string and no text: it has a lone surrogate.
    no_text: Option<&'a RawValue>,
}

/// How often a member stands in the object.
#[derive(Clone, Copy, Default)]
pub(super) enum Occurrence<'a> {
    #[default]
    Absent,
    Once(&'a RawValue),
    Repeated,
}

impl<'a> Members<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Failure> {
        let text = std::str::from_utf8(body).map_err(|cause| {
            // serde_json counts the byte that it stumbles over.
            not_json("the text is not UTF-8", place(&body[..=cause.valid_up_to()]))
        })?;
        let is_object = text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{');
        if is_object {
            // The members' values are taken as they stand, so only the syntax can be wrong here.
            let members: Self = serde_json::from_str(text).map_err(|cause| wrong_syntax(&cause))?;
            members.check_text(body)?;
            Ok(members)
        } else {
            serde_json::from_str::<IgnoredAny>(text).map_err(|cause| wrong_syntax(&cause))?;
            Err(Failure::new(
                ErrorNumber::WrongShape,
                "a plant must be a JSON object, such as {\"id\":1,\"name\":\"Rosa\"}",
            ))
        }
    }

    /// Refuses a value that is no text. serde_json finds that only where it reads the value as text, and counts from
    /// the value's begin then.
    fn check_text(&self, body: &[u8]) -> Result<(), Failure> {
        let Some(value) = self.no_text else { return Ok(()) };
        let Err(cause) = serde_json::from_str::<String>(value.get()) else { return Ok(()) };
        // A value is a part of the body, and a string is in one line.
        let begin = value.get().as_ptr().addr() - body.as_ptr().addr();
        Err(not_json(&what(&cause), place(&body[..begin + cause.column()])))
    }

    /// The name and the tag of a Plant. What is wrong goes to `problems`.
    pub(super) fn plant(self, problems: &mut Vec<String>) -> Option<(String, Option<String>)> {
        let name = self.name.required("name", text, problems);
        let tag = self.tag.optional("tag", text, problems);
        name.map(|name| (name, tag))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Members::default();
                while let Some(name) = map.next_key::<&RawValue>()? {
                    let member = match MemberName::of(name) {
                        MemberName::Id => &mut members.id,
                        MemberName::Name => &mut members.name,
                        MemberName::Tag => &mut members.tag,
                        MemberName::Unknown => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    let value: &RawValue = map.next_value()?;
                    *member = match *member {
                        Occurrence::Absent => Occurrence::Once(value),
                        Occurrence::Once(_) | Occurrence::Repeated => Occurrence::Repeated,
                    };
                    if members.no_text.is_none() && has_lone_surrogate(value) {
                        members.no_text = Some(value);
                    }
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

enum MemberName {
    Id,
    Name,
    Tag,
    Unknown,
}

impl MemberName {
    /// Which member a name is of, as it stands in the text. As nothing but text a name could hold what
    /// no JSON may, and one with a lone surrogate, which is of none that we know, would be refused.
    fn of(name: &RawValue) -> Self {
        let name = name.get();
        let has_escape = name.contains('\\');
        let unescaped = has_escape.then(|| serde_json::from_str::<String>(name).ok()).flatten();
        match unescaped.as_deref().unwrap_or(name.trim_matches('"')) {
            "id" => Self::Id,
            "name" => Self::Name,
            "tag" => Self::Tag,
            _ => Self::Unknown,
        }
    }
}

impl<'a> Occurrence<'a> {
    /// The value of a member that must be there. What is wrong goes to `problems`.
    pub(super) fn required<T>(
        self,
        name: &str,
        convert: impl Fn(&'a RawValue) -> Result<T, &'static str>,
        problems: &mut Vec<String>,
    ) -> Option<T> {
        match self {
            Self::Absent => problems.push(format!("{name} is missing")),
            Self::Repeated => problems.push(format!("{name} must stand once")),
            Self::Once(value) => match convert(value) {
                Ok(value) => return Some(value),
                Err(must_be) => problems.push(format!("{name} {must_be}")),
            },
        }
        None
    }

    /// As [`Self::required`], but the member may be absent.
    pub(super) fn if_present<T>(
        self,
        name: &str,
        convert: impl Fn(&'a RawValue) -> Result<T, &'static str>,
        problems: &mut Vec<String>,
    ) -> Option<T> {
        match self {
            Self::Absent => None,
            _ => self.required(name, convert, problems),
        }
    }

    /// As [`Self::if_present`], but the member may also be `null`, which means the same.
    fn optional<T>(
        self,
        name: &str,
        convert: impl Fn(&'a RawValue) -> Result<T, &'static str>,
        problems: &mut Vec<String>,
    ) -> Option<T> {
        match self {
            Self::Once(value) if value.get() == "null" => None,
            _ => self.if_present(name, convert, problems),
        }
    }
}

/// The value, or what it must be.
pub(super) fn integer(value: &RawValue) -> Result<i64, &'static str> {
    let value = value.get();
    if !value.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err("must be an integer");
    }
    if value.contains(['.', 'e', 'E']) {
        return Err("must be an integer, without a fraction or an exponent");
    }
    value.parse().map_err(|_| "must be an integer within int64")
}

/// The text, or what it must be.
pub(super) fn text(value: &RawValue) -> Result<String, &'static str> {
    serde_json::from_str(value.get()).map_err(|_| "must be a string")
}

/// Whether it is a string that is no text. Only an escape can make it that.
fn has_lone_surrogate(value: &RawValue) -> bool {
    let value = value.get();
    let has_escape = value.starts_with('"') && value.contains("\\u");
    has_escape && serde_json::from_str::<String>(value).is_err()
}

pub(super) fn wrong_shape(problems: &[String]) -> Failure {
    Failure::new(ErrorNumber::WrongShape, problems.join("; "))
}

fn wrong_syntax(cause: &serde_json::Error) -> Failure {
    not_json(&what(cause), (cause.line(), cause.column()))
}

/// What is wrong, without the place.
fn what(cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    let place = format!(" at line {} column {}", cause.line(), cause.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// The line and the column of the last of these bytes, which are the first of a body: as serde_json counts, from 1 on
/// and in bytes.
fn place(bytes: &[u8]) -> (usize, usize) {
    let mut lines = bytes.rsplit(|byte| *byte == b'\n');
    let column = lines.next().map_or(0, <[u8]>::len);
    (lines.count() + 1, column)
}

fn not_json(what: &str, (line, column): (usize, usize)) -> Failure {
    // In a body of one line, or a row of many, the line says nothing.
    let place = match line {
        1 => format!("column {column}"),
        _ => format!("line {line} column {column}"),
    };
    Failure::new(
        ErrorNumber::NotJson,
        format!("this must be JSON (RFC 8259) in UTF-8: {what} at {place}"),
    )
}
