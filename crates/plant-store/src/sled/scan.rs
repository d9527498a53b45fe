//! All plants of a database of which some cannot be read.

use std::vec;

use super::ordered_map::{IVec, Iter, Tree};
use plant_domain::PlantId;

use super::blocks::{Block, check_order, plant_keys};
use super::ordered_map::guarded::guarded;

/// The plants in the order of their ids, and their records. Where some cannot be read, that is an error, and
/// those behind them follow.
pub(super) struct PlantScan<'a> {
    tree: &'a Tree,
    blocks: Iter,
    /// The id that the next block begins at or behind; none behind the greatest.
    from: Option<PlantId>,
    /// What is left of the last block.
    entries: vec::IntoIter<(PlantId, IVec)>,
    last: Option<PlantId>,
}

impl<'a> PlantScan<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        let first = PlantId::MIN;
        let blocks = blocks_from(tree, first);
        Self { tree, blocks, from: Some(first), entries: Vec::new().into_iter(), last: None }
    }

    /// Reads the next block. There is none behind the last one.
    fn read_block(&mut self) -> Option<anyhow::Result<()>> {
        let from = self.from?;
        let block = match guarded(|| Ok(self.blocks.next().transpose()?)) {
            Ok(block) => block.map(|(key, value)| Block::new(key, value))?,
            Err(cause) => {
                self.skip_unreadable(from);
                let until = match self.from {
                    Some(id) => format!("up to id {id}"),
                    None => "up to the last one".to_owned(),
                };
                let told = format!("no plant from about id {from} {until} can be read");
                return Some(Err(cause.context(told)));
            }
        };
        let read = block.first_id().and_then(|first| {
            self.from = first.next();
            let entries = block.owned_entries()?;
            if let Some(last) = self.last {
                check_order(last, first)?;
            }
            self.last = entries.last().map(|(id, _)| *id);
            self.entries = entries.into_iter();
            Ok(())
        });
        Some(read)
    }

    /// Goes on behind the page that begins at `from` or holds it. Where it ends is not known, so it is
    /// looked for in growing steps.
    fn skip_unreadable(&mut self, from: PlantId) {
        let readable = |id: i64| {
            let mut blocks = blocks_from(self.tree, PlantId::from(id));
            guarded(|| Ok(blocks.next().transpose()?)).is_ok()
        };
        let mut unreadable = from.get();
        let mut step: i64 = 1;
        let mut found = loop {
            match unreadable.checked_add(step) {
                Some(id) if readable(id) => break id,
                Some(id) => unreadable = id,
                None if unreadable == i64::MAX => {
                    self.from = None;
                    return;
                }
                None => {
                    // The steps begin anew near the greatest id.
                    step = 1;
                    continue;
                }
            }
            step = step.saturating_mul(2);
        };
        while found.abs_diff(unreadable) > 1 {
            let middle = unreadable.midpoint(found);
            if readable(middle) {
                found = middle;
            } else {
                unreadable = middle;
            }
        }
        let found = PlantId::from(found);
        self.blocks = blocks_from(self.tree, found);
        self.from = Some(found);
    }
}

impl Iterator for PlantScan<'_> {
    type Item = anyhow::Result<(PlantId, IVec)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(entry));
            }
            if let Err(error) = self.read_block()? {
                return Some(Err(error));
            }
        }
    }
}

/// The blocks that begin at an id or behind it.
fn blocks_from(tree: &Tree, id: PlantId) -> Iter {
    tree.range(plant_keys(id))
}
