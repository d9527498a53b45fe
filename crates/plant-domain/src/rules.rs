//! The create rules: what the text members of a plant may be, and how a broken rule is named.

use std::fmt;

use validator::{Validate, ValidateLength as _, ValidationError, ValidationErrors};

/// The most characters (Unicode scalar values) that a name may have; the least is one.
///
/// ```
/// assert_eq!(plant_domain::NAME_MAX_CHARACTERS, 255);
/// ```
pub const NAME_MAX_CHARACTERS: u64 = 255;

/// The most characters (Unicode scalar values) that a tag may have; the least is one.
///
/// ```
/// assert_eq!(plant_domain::TAG_MAX_CHARACTERS, 255);
/// ```
pub const TAG_MAX_CHARACTERS: u64 = 255;

const BLANK: &str = "blank";
const CONTROL_CHARACTER: &str = "control_character";

/// A member of a plant that has rules. (The id has none: every int64 is one.)
///
/// ```
/// assert_eq!(plant_domain::Member::Name.to_string(), "name");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// The plant's name.
    Name,
    /// The plant's tag.
    Tag,
}

impl Member {
    /// The most characters (Unicode scalar values) that this member may have.
    ///
    /// ```
    /// use plant_domain::{Member, NAME_MAX_CHARACTERS};
    ///
    /// assert_eq!(Member::Name.max_characters(), NAME_MAX_CHARACTERS);
    /// ```
    #[must_use]
    pub const fn max_characters(self) -> u64 {
        match self {
            Self::Name => NAME_MAX_CHARACTERS,
            Self::Tag => TAG_MAX_CHARACTERS,
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Name => "name",
            Self::Tag => "tag",
        })
    }
}

/// A rule that a name and a tag both follow.
///
/// ```
/// use plant_domain::{Plant, Rule};
///
/// let violations = Plant::new("Rosa\n", None).unwrap_err();
/// assert_eq!(violations.iter().next().unwrap().rule, Rule::NoControlCharacters);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// It has at least one character and at most [`Member::max_characters`].
    Length,
    /// At least one character is not white space (Unicode's `White_Space`).
    NotBlank,
    /// No character is a control character (general category `Cc`).
    NoControlCharacters,
}

/// One rule that one member breaks.
///
/// ```
/// use plant_domain::{Member, Rule, Violation};
///
/// let violation = Violation { member: Member::Tag, rule: Rule::NotBlank };
/// assert_eq!(violation.to_string(), "tag must hold a character that is not white space");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Violation {
    /// The member that breaks the rule.
    pub member: Member,
    /// The rule that it breaks.
    pub rule: Rule,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { member, rule } = self;
        match rule {
            Rule::Length => {
                let max = member.max_characters();
                write!(formatter, "{member} must have 1 to {max} characters")
            }
            Rule::NotBlank => {
                write!(formatter, "{member} must hold a character that is not white space")
            }
            Rule::NoControlCharacters => {
                write!(formatter, "{member} must not hold control characters")
            }
        }
    }
}

/// Every rule that a name and a tag break, name before tag; there is at least one.
///
/// ```
/// use plant_domain::Plant;
///
/// assert_eq!(
///     Plant::new(" ", Some(String::new())).unwrap_err().to_string(),
///     "name must hold a character that is not white space; tag must have 1 to 255 characters",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", join(.0))]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// The broken rules, in the order in which the message names them.
    pub fn iter(&self) -> impl Iterator<Item = Violation> + '_ {
        self.0.iter().copied()
    }

    /// Names in our terms what the validator found.
    fn from_validator(errors: &ValidationErrors) -> Self {
        let mut violations: Vec<Violation> = errors
            .field_errors()
            .into_iter()
            .flat_map(|(field, errors)| {
                let member = if field == "tag" { Member::Tag } else { Member::Name };
                errors.iter().map(move |error| Violation { member, rule: rule_of(error) })
            })
            .collect();
        violations.sort_unstable();
        Self(violations)
    }
}

/// The text members that are there, with their rules.
#[derive(Validate)]
struct Texts<'a> {
    #[validate(
        length(min = 1, max = NAME_MAX_CHARACTERS),
        custom(function = not_blank),
        custom(function = no_control_characters)
    )]
    name: Option<&'a str>,
    #[validate(
        length(min = 1, max = TAG_MAX_CHARACTERS),
        custom(function = not_blank),
        custom(function = no_control_characters)
    )]
    tag: Option<&'a str>,
}

/// The one place where the rules are applied, to those members that are there.
pub(crate) fn check(name: Option<&str>, tag: Option<&str>) -> Result<(), Violations> {
    let is_plain = |text: Option<&str>, max| text.is_none_or(|text| is_plain(text, max));
    if is_plain(name, NAME_MAX_CHARACTERS) && is_plain(tag, TAG_MAX_CHARACTERS) {
        return Ok(());
    }
    Texts { name, tag }.validate().map_err(|errors| Violations::from_validator(&errors))
}

/// Whether a text is of the kind that almost all are: no longer than `max`, of printable ASCII, and a space is
/// not the first of it. Such a text breaks no rule, and a look at its bytes tells so, many of them at a time.
fn is_plain(text: &str, max: u64) -> bool {
    let is_short = u64::try_from(text.len()).is_ok_and(|length| length <= max);
    let begins_well = text.as_bytes().first().is_some_and(u8::is_ascii_graphic);
    let others = || text.bytes().filter(|byte| !(b' '..=b'~').contains(byte)).count();
    is_short && begins_well && others() == 0
}

/// A part of a name follows the rule for its length only: it may be blank.
pub(crate) fn check_name_part(part: &str) -> Result<(), Violations> {
    if part.validate_length(Some(1), Some(NAME_MAX_CHARACTERS), None) {
        Ok(())
    } else {
        Err(Violations(vec![Violation { member: Member::Name, rule: Rule::Length }]))
    }
}

fn rule_of(error: &ValidationError) -> Rule {
    match error.code.as_ref() {
        BLANK => Rule::NotBlank,
        CONTROL_CHARACTER => Rule::NoControlCharacters,
        _ => Rule::Length,
    }
}

/// Empty text is left to the length rule, so that it is told one thing and not two.
fn not_blank(text: &str) -> Result<(), ValidationError> {
    if !text.is_empty() && text.chars().all(char::is_whitespace) {
        Err(ValidationError::new(BLANK))
    } else {
        Ok(())
    }
}

/// `char::is_control` is Unicode's general category `Cc`.
fn no_control_characters(text: &str) -> Result<(), ValidationError> {
    if text.chars().any(char::is_control) {
        Err(ValidationError::new(CONTROL_CHARACTER))
    } else {
        Ok(())
    }
}

fn join(violations: &[Violation]) -> String {
    let sentences: Vec<String> = violations.iter().map(Violation::to_string).collect();
    sentences.join("; ")
}
