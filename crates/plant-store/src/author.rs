//! The author of a change.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

/// The most bytes of an [`Author`]; the least is one.
pub const AUTHOR_MAX_BYTES: usize = 64;

/// The name under which a change is made. Its event keeps the name. The HTTP service uses the name of the request's token.
///
/// Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Author(Arc<str>);

impl Author {
    /// An author with this name.
    ///
    /// # Errors
    ///
    /// When the name is empty or longer than [`AUTHOR_MAX_BYTES`].
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, NotAnAuthor> {
        let name = name.into();
        if (1..=AUTHOR_MAX_BYTES).contains(&name.len()) { Ok(Self(name)) } else { Err(NotAnAuthor) }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Author {
    type Error = NotAnAuthor;

    fn try_from(name: String) -> Result<Self, NotAnAuthor> {
        Self::new(name)
    }
}

impl Serialize for Author {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl From<Author> for String {
    fn from(author: Author) -> Self {
        author.name().to_owned()
    }
}

impl fmt::Display for Author {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// The text is not the name of an [`Author`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the name of an author has 1 to {AUTHOR_MAX_BYTES} bytes")]
pub struct NotAnAuthor;
