//! The create rules: which names and tags are valid, and the message for each broken rule.

/// The most characters (Unicode scalar values) that a name may have; the least is one.
pub const NAME_MAX_CHARACTERS: u64 = 255;

/// The most characters (Unicode scalar values) that a tag may have; the least is one.
pub const TAG_MAX_CHARACTERS: u64 = 255;

/// Every rule that a name and a tag break, as sentences for the client: name before tag, at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violations(String);

/// Checks the members that are given. Nothing else applies the rules.
pub(crate) fn check(name: Option<&str>, tag: Option<&str>) -> Result<(), Violations> {
    let members = [("name", name, NAME_MAX_CHARACTERS), ("tag", tag, TAG_MAX_CHARACTERS)];
    let mut violations = Vec::new();
    for (member, text, max) in members {
        let Some(text) = text.filter(|text| !is_plain(text, max)) else { continue };
        violations.extend(broken_length(member, text, max));
        // Empty text breaks only the rule about the length.
        if !text.is_empty() && text.chars().all(char::is_whitespace) {
            violations.push(format!("{member} must hold a character that is not white space"));
        }
        violations.extend(broken_characters(member, text));
    }
    none_of(&violations)
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
    let length = broken_length("prefix", prefix, TAG_MAX_CHARACTERS);
    let broken: Vec<String> =
        length.into_iter().chain(broken_characters("prefix", prefix)).collect();
    none_of(&broken)
}

/// Checks a part of a name: only its length, so it may be blank.
pub(crate) fn check_name_part(part: &str) -> Result<(), Violations> {
    none_of(broken_length("name", part, NAME_MAX_CHARACTERS).as_slice())
}

fn none_of(violations: &[String]) -> Result<(), Violations> {
    if violations.is_empty() { Ok(()) } else { Err(Violations(violations.join("; "))) }
}

fn broken_length(member: &str, text: &str, max: u64) -> Option<String> {
    let is_right = (1..=max).contains(&(text.chars().count() as u64));
    (!is_right).then(|| format!("{member} must have 1 to {max} characters"))
}

fn broken_characters(member: &str, text: &str) -> Option<String> {
    let has_control = text.chars().any(char::is_control);
    has_control.then(|| format!("{member} must not hold control characters"))
}

/// Whether a text is short printable ASCII that does not begin with a space. Such a text, which is by far the most common
/// kind, breaks no rule; looking at bytes is faster, because the compiler vectorizes the loop.
fn is_plain(text: &str, max: u64) -> bool {
    let is_short = u64::try_from(text.len()).is_ok_and(|length| length <= max);
    let begins_well = text.as_bytes().first().is_some_and(u8::is_ascii_graphic);
    let others = || text.bytes().filter(|byte| !(b' '..=b'~').contains(byte)).count();
    is_short && begins_well && others() == 0
}
