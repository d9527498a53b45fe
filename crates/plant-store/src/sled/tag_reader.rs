//! Reads of the counts of tags.

use std::sync::Arc;

use anyhow::Context as _;

use crate::sled::compaction::merge::Merge;
use crate::sled::memtable::tag_counts::{TagCountRun, add_count};
use crate::sled::reader::PlantReader;
use crate::sled::tables::Map;
use crate::{TagCount, TagPage, TagPageRequest};

/// How many tags beyond its limit a page examines, because tags without plants may be in the way.
const MORE_TAGS: usize = 256;

impl PlantReader {
    /// The number of plants with a tag.
    pub(crate) fn count_with_tag(&self, tag: &str) -> anyhow::Result<u64> {
        let (mut sum, tables) = {
            let levels = self.tree.read();
            let counts = levels.memtables().filter_map(|memtable| memtable.tag_counts.get(tag));
            (counts.sum::<i64>(), Arc::clone(&levels.tables))
        };
        for table in &*tables {
            if let Some(count) = table.get(Map::Tags, tag.as_bytes())? {
                sum = add_count(sum, count.as_deref())?;
            }
        }
        plants_with_tag(tag, sum)
    }

    pub(crate) fn tags(&self, request: &TagPageRequest) -> anyhow::Result<TagPage> {
        let (start, limit) = (request.start(), request.limit.max(1));
        let TagCountRun { counts, end } = self.counts_from(start, limit + MORE_TAGS)?;
        let mut page = TagPage::default();
        let mut last = None;
        for (tag, count) in counts {
            if !tag.starts_with(&request.prefix) {
                // Tags with the prefix are neighbors, so no more follow.
                return Ok(page);
            }
            if count != 0 && request.selects(&tag) {
                if page.tags.len() == limit {
                    page.next = last;
                    return Ok(page);
                }
                let plants = plants_with_tag(&tag, count)?;
                page.tags.push(TagCount { tag: tag.to_string(), plants });
            }
            last = Some(tag.into());
        }
        page.next = last.filter(|_| end.is_some());
        Ok(page)
    }

    /// The counts of all levels from a tag on, all of one moment. Reads at most `most` tags of each level.
    fn counts_from(&self, start: &str, most: usize) -> anyhow::Result<TagCountRun> {
        let (TagCountRun { mut counts, mut end }, tables) = {
            let levels = self.tree.read();
            (levels.tag_counts_from(start, most), Arc::clone(&levels.tables))
        };
        let mut older = Merge::new(&tables, Map::Tags, start.as_bytes());
        for examined in 0.. {
            let counted = older.next_count().context("cannot read the tags")?;
            let Some((tag, count)) = counted else { break };
            if end.as_deref().is_some_and(|end| tag >= end) {
                break;
            }
            if examined == most {
                counts.split_off(tag);
                end = Some(tag.into());
                break;
            }
            let sum = counts.entry(tag.into()).or_default();
            *sum = sum.checked_add(count).context("a count of a tag is too great")?;
        }
        Ok(TagCountRun { counts, end })
    }
}

fn plants_with_tag(tag: &str, count: i64) -> anyhow::Result<u64> {
    u64::try_from(count)
        .with_context(|| format!("the count of the plants with tag {tag:?} is wrong"))
}
