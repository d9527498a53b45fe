//! The create rules: which names and tags are valid, and the message for each broken rule.

use std::collections::BTreeMap;

use validator::{Validate, ValidationError, ValidationErrors};

/// The maximum length of a name in characters (Unicode scalar values). The minimum is one.
pub const NAME_MAX_CHARACTERS: u64 = 255;

/// The maximum length of a tag in characters (Unicode scalar values). The minimum is one.
pub const TAG_MAX_CHARACTERS: u64 = 255;

/// The maximum length of each member, in the order of [`MEMBERS`](crate::MEMBERS).
pub const MAX_CHARACTERS: [u64; 2] = [NAME_MAX_CHARACTERS, TAG_MAX_CHARACTERS];

/// The maximum length of all members together.
pub const PLANT_MAX_CHARACTERS: u64 = {
    let [name, tag] = MAX_CHARACTERS;
    name + tag
};

/// The broken rules of a name and a tag, as sentences for the client: name before tag, at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violations(String);

/// The members to check, with the rules for each.
#[derive(Validate)]
struct Members<'a> {
    #[validate(
        length(min = 1, max = NAME_MAX_CHARACTERS),
        custom(function = not_blank),
        custom(function = no_controls)
    )]
    name: Option<&'a str>,
    #[validate(
        length(min = 1, max = TAG_MAX_CHARACTERS),
        custom(function = not_blank),
        custom(function = no_controls)
    )]
    tag: Option<&'a str>,
}

/// The beginning of a tag. A blank beginning is valid, because more text follows.
#[derive(Validate)]
struct TagPrefix<'a> {
    #[validate(
        length(min = 1, max = TAG_MAX_CHARACTERS),
        custom(function = no_controls)
    )]
    prefix: &'a str,
}

/// A part of a name. Only its length is limited.
#[derive(Validate)]
struct NamePart<'a> {
    #[validate(length(min = 1, max = NAME_MAX_CHARACTERS))]
    name: &'a str,
}

/// Checks the members that are there, in the order of [`MEMBERS`](crate::MEMBERS).
pub(crate) fn check([name, tag]: [Option<&str>; 2]) -> Result<(), Violations> {
    let name = name.filter(|text| !is_plain(text, NAME_MAX_CHARACTERS));
    let tag = tag.filter(|text| !is_plain(text, TAG_MAX_CHARACTERS));
    if name.is_none() && tag.is_none() {
        return Ok(());
    }
    Members { name, tag }.validate().map_err(violations)
}

/// Checks a tag.
///
/// # Errors
///
/// Every rule that the tag breaks.
pub fn check_tag(tag: &str) -> Result<(), Violations> {
    check([None, Some(tag)])
}

/// Checks the beginning of a tag. A blank beginning is valid, because more text follows.
///
/// # Errors
///
/// Every rule that all tags with this beginning break. An empty beginning is an error too.
pub fn check_tag_prefix(prefix: &str) -> Result<(), Violations> {
    TagPrefix { prefix }.validate().map_err(violations)
}

pub(crate) fn check_name_part(part: &str) -> Result<(), Violations> {
    NamePart { name: part }.validate().map_err(violations)
}

/// Accepts empty text, which the rule about the length reports already.
fn not_blank(text: &str) -> Result<(), ValidationError> {
    let is_blank = !text.is_empty() && text.chars().all(char::is_whitespace);
    require(!is_blank, "blank", "must hold a character that is not white space")
}

fn no_controls(text: &str) -> Result<(), ValidationError> {
    let has_controls = text.chars().any(char::is_control);
    require(!has_controls, "control", "must not hold control characters")
}

fn require(holds: bool, code: &'static str, rule: &'static str) -> Result<(), ValidationError> {
    let broken = || ValidationError::new(code).with_message(rule.into());
    holds.then_some(()).ok_or_else(broken)
}

/// Sorts by the member's name, because validator returns members in no order, and "name" sorts before "tag". The rules
/// of one member keep their order.
fn violations(errors: ValidationErrors) -> Violations {
    let members: BTreeMap<_, _> = errors.field_errors().into_iter().collect();
    let mut sentences = Vec::new();
    for (member, broken) in members {
        sentences.extend(broken.iter().map(|rule| sentence(&member, rule)));
    }
    Violations(sentences.join("; "))
}

/// Only the rule about the length has no message yet: an attribute cannot build a message from the constants.
fn sentence(member: &str, broken: &ValidationError) -> String {
    let ValidationError { message, params, .. } = broken;
    match message {
        Some(message) => format!("{member} {message}"),
        None => format!("{member} must have {} to {} characters", params["min"], params["max"]),
    }
}

/// A fast path: a short text that begins with a visible ASCII character and has no byte of a control character breaks
/// no rule. Most texts are like this. The compiler vectorizes the loop over bytes, so creating a plant takes 15 ns
/// instead of 30 ns (`benches/create_rules.rs`).
fn is_plain(text: &str, max: u64) -> bool {
    let is_short = u64::try_from(text.len()).is_ok_and(|length| length <= max);
    let begins_well = text.as_bytes().first().is_some_and(u8::is_ascii_graphic);
    // In UTF-8, the control characters beyond ASCII begin with 0xC2.
    let may_be_control = |byte: &u8| matches!(byte, ..b' ' | 0x7f | 0xc2);
    let has_none = || text.bytes().filter(may_be_control).count() == 0;
    is_short && begins_well && has_none()
}
