//! The create rules: which names and tags are valid, and the message for each broken rule.

use std::collections::BTreeMap;

use validator::{Validate, ValidationError, ValidationErrors};

/// The most characters (Unicode scalar values) that a name may have; the least is one.
pub const NAME_MAX_CHARACTERS: u64 = 255;

/// The most characters (Unicode scalar values) that a tag may have; the least is one.
pub const TAG_MAX_CHARACTERS: u64 = 255;

/// Every rule that a name and a tag break, as sentences for the client: name before tag, at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violations(String);

/// The members that are given, and the rules for each.
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

/// The beginning of a tag. It may be blank, because the tag goes on.
#[derive(Validate)]
struct TagPrefix<'a> {
    #[validate(
        length(min = 1, max = TAG_MAX_CHARACTERS),
        custom(function = no_controls)
    )]
    prefix: &'a str,
}

/// A part of a name: only its length counts, so it may be blank.
#[derive(Validate)]
struct NamePart<'a> {
    #[validate(length(min = 1, max = NAME_MAX_CHARACTERS))]
    name: &'a str,
}

/// Checks the members that are given.
pub(crate) fn check(name: Option<&str>, tag: Option<&str>) -> Result<(), Violations> {
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
    check(None, Some(tag))
}

/// Checks the beginning of a tag. It may be blank, because the tag goes on.
///
/// # Errors
///
/// Every rule that no tag with this beginning follows, and that the beginning is not empty.
pub fn check_tag_prefix(prefix: &str) -> Result<(), Violations> {
    TagPrefix { prefix }.validate().map_err(violations)
}

/// Checks a part of a name.
pub(crate) fn check_name_part(part: &str) -> Result<(), Violations> {
    NamePart { name: part }.validate().map_err(violations)
}

/// Empty text breaks only the rule about the length.
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

/// Sorts by member, because validator gives the members in no order; in the alphabet, name is before tag. The rules of a
/// member stay in their order.
fn violations(errors: ValidationErrors) -> Violations {
    let members: BTreeMap<_, _> = errors.field_errors().into_iter().collect();
    let mut sentences = Vec::new();
    for (member, broken) in members {
        sentences.extend(broken.iter().map(|rule| sentence(&member, rule)));
    }
    Violations(sentences.join("; "))
}

/// Only the rule about the length has no message yet: that of an attribute could not name the constants.
fn sentence(member: &str, broken: &ValidationError) -> String {
    let ValidationError { message, params, .. } = broken;
    match message {
        Some(message) => format!("{member} {message}"),
        None => format!("{member} must have {} to {} characters", params["min"], params["max"]),
    }
}

/// Whether a text is short, begins with a visible character of ASCII, and holds no byte of a control character. Such a text,
/// which is by far the most common kind, breaks no rule. Looking at bytes is faster, because the compiler vectorizes the
/// loop: it takes the making of a plant from 30 ns to 15 ns (`benches/create_rules.rs`).
fn is_plain(text: &str, max: u64) -> bool {
    let is_short = u64::try_from(text.len()).is_ok_and(|length| length <= max);
    let begins_well = text.as_bytes().first().is_some_and(u8::is_ascii_graphic);
    // The control characters beyond ASCII begin with 0xC2.
    let may_be_control = |byte: &u8| matches!(byte, ..b' ' | 0x7f | 0xc2);
    let has_none = || text.bytes().filter(may_be_control).count() == 0;
    is_short && begins_well && has_none()
}
