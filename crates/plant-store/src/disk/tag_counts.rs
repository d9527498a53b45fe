//! The counts of tags: how many plants have each tag.
//!
//! Each level has, for each tag that plants have gained or lost in it, how many more plants have the tag than by the older
//! levels. So a write never reads a count, and the counts of all levels add up to the number of plants.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::plant_record::whole;

/// By how much the number of plants with each tag has grown.
pub(super) type TagCounts = BTreeMap<Box<str>, i64>;

/// The counts of consecutive tags.
pub(super) struct TagCountRun {
    pub(super) counts: TagCounts,
    /// The first tag after the run, if there may be more.
    pub(super) end: Option<Box<str>>,
}

/// The count that one table has.
pub(super) fn decode_count(value: Option<&[u8]>) -> anyhow::Result<i64> {
    value.and_then(|value| whole(value).ok()).context("a count of a tag is damaged")
}
