//! A page of tags.

use serde::Serialize;

/// A tag, and how many plants have the tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// The number of plants, at least one.
    pub plants: u64,
}

/// A page of tags in ascending order of their code points, and where to continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagPage {
    /// The tags.
    pub tags: Vec<TagCount>,
    /// The [`TagPageRequest::after`] of the next page, if there may be one.
    pub next: Option<String>,
}

/// A request for a page of tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagPageRequest {
    /// Only tags that begin with this text. The empty text selects all.
    pub prefix: String,
    /// Only tags greater than this one.
    pub after: Option<String>,
    /// The most tags on the page, at least 1.
    pub limit: usize,
}

impl TagPageRequest {
    /// No tag that is less than this text is on the page.
    #[must_use]
    pub fn start(&self) -> &str {
        self.after.as_deref().unwrap_or_default().max(&self.prefix)
    }

    /// Whether the tag may be on the page.
    #[must_use]
    pub fn selects(&self, tag: &str) -> bool {
        tag.starts_with(&self.prefix) && self.after.as_deref().is_none_or(|after| tag > after)
    }
}
