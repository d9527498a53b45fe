//! The members of a JSON object as raw JSON text.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::errors::{ErrorNumber, Failure};

/// The known members of the object.
#[derive(Default)]
pub(crate) struct Members<'a> {
    pub(super) id: Member<'a>,
    pub(super) name: Member<'a>,
    pub(super) tag: Member<'a>,
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

impl<'a> Members<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Failure> {
        let text = std::str::from_utf8(body).map_err(|cause| {
            not_json("the text is not UTF-8", place(&body[..=cause.valid_up_to()]))
        })?;
        if !text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{') {
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
        let name = name.get();
        // A name is decoded only if it has an escape. A name with a lone surrogate is not a known name.
        let unescaped =
            name.contains('\\').then(|| serde_json::from_str::<String>(name).ok()).flatten();
        match unescaped.as_deref().unwrap_or(name.trim_matches('"')) {
            "id" => Some(&mut self.id),
            "name" => Some(&mut self.name),
            "tag" => Some(&mut self.tag),
            _ => None,
        }
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
                    *member = match member {
                        Member::Absent => Member::Once(value),
                        Member::Once(_) | Member::Repeated => Member::Repeated,
                    };
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
