//! Reads of the counts of tags.

use std::sync::Arc;

use anyhow::Context as _;

use super::keys;
use super::merge::Merge;
use super::reader::DiskReader;
use super::tag_counts::{TagCountRun, decode_count};
use crate::{TagCount, TagPage, TagPageRequest};

/// How many tags more than its limit a page examines: tags without plants may be in the way.
const MORE_TAGS: usize = 256;

impl DiskReader {
    /// The number of plants, or of those with a tag.
    pub(super) fn count(&self, tag: Option<&str>) -> anyhow::Result<u64> {
        let Some(tag) = tag else { return Ok(self.tree.read().totals.plants) };
        let (mut sum, tables) = {
            let levels = self.tree.read();
            let counts = levels.memtables().filter_map(|memtable| memtable.tag_counts.get(tag));
            (counts.sum::<i64>(), Arc::clone(&levels.tables))
        };
        let key = keys::count_key(tag);
        for table in &*tables {
            if let Some(count) = table.get(&key)? {
                sum += decode_count(count.as_deref())?;
            }
        }
        plants_with_tag(tag, sum)
    }

    pub(super) fn tags(&self, request: &TagPageRequest) -> anyhow::Result<TagPage> {
        let (start, limit) = (request.start(), request.limit.max(1));
        let TagCountRun { counts, end } = self.counts_from(start, limit + MORE_TAGS)?;
        let mut page = TagPage::default();
        let mut last = None;
        for (tag, count) in counts {
            if !tag.starts_with(&request.prefix) {
                // Tags with the prefix are neighbors, so none follows.
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

    /// The counts of all levels from a tag on, for at most `most` tags of each. All are of one moment.
    fn counts_from(&self, start: &str, most: usize) -> anyhow::Result<TagCountRun> {
        let (TagCountRun { mut counts, mut end }, tables) = {
            let levels = self.tree.read();
            (levels.tag_counts_from(start, most), Arc::clone(&levels.tables))
        };
        let mut older = Merge::new(&tables, &keys::count_key(start));
        for examined in 0.. {
            older.advance().context("cannot read the tags")?;
            let Some((tag, count)) = older.tag_count()? else { break };
            if end.as_deref().is_some_and(|end| tag >= end) {
                break;
            }
            if examined == most {
                counts.split_off(tag);
                end = Some(tag.into());
                break;
            }
            *counts.entry(tag.into()).or_default() += count;
        }
        Ok(TagCountRun { counts, end })
    }
}

fn plants_with_tag(tag: &str, count: i64) -> anyhow::Result<u64> {
    u64::try_from(count)
        .with_context(|| format!("the count of the plants with tag {tag:?} is wrong"))
}
