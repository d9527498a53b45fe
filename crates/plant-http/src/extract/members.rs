//! The members of a JSON object as raw JSON text.

use std::borrow::Cow;
use std::fmt;

use plant_domain::MEMBERS;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::errors::{ErrorNumber, Failure};

/// The known members of the object.
#[derive(Default)]
pub(crate) struct Members<'a> {
    pub(super) id: Member<'a>,
    /// In the order of [`MEMBERS`].
    pub(super) texts: [Member<'a>; MEMBERS.len()],
    /// The first of their values that is a string with a lone surrogate, and serde_json's error for it.
    not_text: Option<(&'a RawValue, serde_json::Error)>,
}

/// How often a member appears in the object.
#[derive(Clone, Copy, Default)]
pub(super) enum Member<'a> {
    #[default]
    Absent,
    Once(&'a RawValue),
    Repeated,
}

impl<'a> Member<'a> {
    /// The member appears, once more, with this value.
    fn add(&mut self, value: &'a RawValue) {
        *self = match self {
            Self::Absent => Self::Once(value),
            Self::Once(_) | Self::Repeated => Self::Repeated,
        };
    }
}

impl<'a> Members<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Failure> {
        let text = as_text(body)?;
        if !is_object(text) {
            serde_json::from_str::<IgnoredAny>(text).map_err(|cause| wrong_syntax(&cause))?;
            return Err(Failure::new(
                ErrorNumber::WrongShape,
                "a plant must be a JSON object, such as {\"id\":1,\"name\":\"Rosa\"}",
            ));
        }
        let members: Self = serde_json::from_str(text).map_err(|cause| wrong_syntax(&cause))?;
        members.check_text(body)?;
        Ok(members)
    }

    /// Refuses a lone surrogate. serde_json finds one only when it reads the value as text, and then counts from the
    /// start of the value.
    fn check_text(&self, body: &[u8]) -> Result<(), Failure> {
        let Some((value, cause)) = &self.not_text else { return Ok(()) };
        // The value is a slice of the body, and a string is on one line.
        let start = value.get().as_ptr().addr() - body.as_ptr().addr();
        Err(not_json(&what(cause), place(&body[..start + cause.column()])))
    }

    fn of_name(&mut self, name: &RawValue) -> Option<&mut Member<'a>> {
        let name = &*text_of(name)?;
        if name == "id" {
            return Some(&mut self.id);
        }
        let place = MEMBERS.iter().position(|member| *member == name)?;
        Some(&mut self.texts[place])
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
                    let Some(member) = members.of_name(name) else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    let value: &RawValue = map.next_value()?;
                    member.add(value);
                    let text = value.get();
                    if text.starts_with('"')
                        && text.contains("\\u")
                        && let Err(cause) = serde_json::from_str::<String>(text)
                    {
                        members.not_text.get_or_insert((value, cause));
                    }
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Reads an object with these members alone. The error is a message about `what` the object is.
pub(super) fn object<'a, const N: usize>(
    what_it_is: &str,
    text: &'a str,
    names: [&'static str; N],
    is_same: fn(&str, &str) -> bool,
) -> Result<[Member<'a>; N], String> {
    if !is_object(text) {
        return Err(format!("{what_it_is} must be a JSON object"));
    }
    let visitor = ObjectVisitor { names, is_same };
    let read = serde_json::Deserializer::from_str(text).deserialize_map(visitor);
    read.map_err(|cause| what(&cause))
}

struct ObjectVisitor<const N: usize> {
    names: [&'static str; N],
    is_same: fn(&str, &str) -> bool,
}

impl<'de, const N: usize> Visitor<'de> for ObjectVisitor<N> {
    type Value = [Member<'de>; N];

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = [Member::Absent; N];
        while let Some(name) = map.next_key::<&RawValue>()? {
            let text = text_of(name);
            let is_it = |known: &&str| text.as_ref().is_some_and(|it| (self.is_same)(it, known));
            let Some(place) = self.names.iter().position(is_it) else {
                let (name, known) = (name.get(), self.names.join(", "));
                return Err(A::Error::custom(format!("{name:.64} is unknown; there is {known}")));
            };
            members[place].add(map.next_value()?);
        }
        Ok(members)
    }
}

/// The text of a JSON string, decoded only if it has an escape; `None` if the value is no string or has a lone surrogate.
pub(super) fn text_of(value: &RawValue) -> Option<Cow<'_, str>> {
    let json = value.get();
    if json.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    json.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
}

/// The body, if it is UTF-8.
pub(super) fn as_text(body: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(body)
        .map_err(|cause| not_json("the text is not UTF-8", place(&body[..=cause.valid_up_to()])))
}

pub(super) fn is_object(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{')
}

pub(super) fn wrong_syntax(cause: &serde_json::Error) -> Failure {
    not_json(&what(cause), (cause.line(), cause.column()))
}

/// What is wrong, without the position.
pub(super) fn what(cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    let place = format!(" at line {} column {}", cause.line(), cause.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// The line and the column of the last of these first bytes of a body. As serde_json does, it counts from 1 and in
/// bytes.
fn place(bytes: &[u8]) -> (usize, usize) {
    let mut lines = bytes.rsplit(|byte| *byte == b'\n');
    let column = lines.next().map_or(0, <[u8]>::len);
    (lines.count() + 1, column)
}

fn not_json(what: &str, (line, column): (usize, usize)) -> Failure {
    // For a body of one line, or one row of many, the line number is useless.
    let place = match line {
        1 => format!("column {column}"),
        _ => format!("line {line} column {column}"),
    };
    Failure::new(
        ErrorNumber::NotJson,
        format!("the text must be JSON (RFC 8259) in UTF-8: {what} at {place}"),
    )
}
