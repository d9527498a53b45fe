//! The create rules: what the text members of a plant may be, and how a broken rule is named.

use std::fmt;

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

impl Rule {
    const ALL: [Self; 3] = [Self::Length, Self::NotBlank, Self::NoControlCharacters];

    /// Empty text breaks the rule of the length only, so that the client is told one thing and not two.
    fn is_broken_by(self, text: &str, member: Member) -> bool {
        match self {
            Self::Length => !(1..=member.max_characters()).contains(&(text.chars().count() as u64)),
            Self::NotBlank => !text.is_empty() && text.chars().all(char::is_whitespace),
            Self::NoControlCharacters => text.chars().any(char::is_control),
        }
    }
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
}

/// The one place where the rules are applied, to those members that are there.
pub(crate) fn check(name: Option<&str>, tag: Option<&str>) -> Result<(), Violations> {
    let mut violations = Vec::new();
    for (member, text) in [(Member::Name, name), (Member::Tag, tag)] {
        let Some(text) = text.filter(|text| !is_plain(text, member.max_characters())) else {
            continue;
        };
        let broken = Rule::ALL.into_iter().filter(|rule| rule.is_broken_by(text, member));
        violations.extend(broken.map(|rule| Violation { member, rule }));
    }
    if violations.is_empty() { Ok(()) } else { Err(Violations(violations)) }
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
    let (member, rule) = (Member::Name, Rule::Length);
    if rule.is_broken_by(part, member) {
        Err(Violations(vec![Violation { member, rule }]))
    } else {
        Ok(())
    }
}

fn join(violations: &[Violation]) -> String {
    let sentences: Vec<String> = violations.iter().map(Violation::to_string).collect();
    sentences.join("; ")
}
