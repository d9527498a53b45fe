//! The counts of tags. Each level stores by how much its changes alter the number of plants with each tag; the sum over
//! all levels is that number. So a write never reads a count.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::format::whole;

pub(crate) type TagCounts = BTreeMap<Box<str>, i64>;

/// The counts of consecutive tags.
pub(crate) struct TagCountRun {
    pub(crate) counts: TagCounts,
    /// The first tag after the run, if there may be more.
    pub(crate) end: Option<Box<str>>,
}

/// Adds the count in a table.
pub(crate) fn add_count(sum: i64, value: Option<&[u8]>) -> anyhow::Result<i64> {
    let count = value.and_then(|value| whole(value).ok()).context("a count of a tag is damaged")?;
    sum.checked_add(count).context("a count of a tag is too great")
}
