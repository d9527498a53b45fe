//! Reads all plants of a database, even if some cannot be read.

use std::iter::Fuse;
use std::vec;

use plant_domain::PlantId;

use super::blocks::{Block, check_order, plant_keys};
use super::layout::PLANT_PREFIX;
use super::ordered_map::guarded::guarded;
use super::ordered_map::{Iter, Tree};

/// The plants and their records, by ascending id. Plants that cannot be read are an error in between.
pub(super) struct PlantScan<'a> {
    tree: &'a Tree,
    /// Fused, because sled's iterator reads on after its end, and may meet damage there.
    blocks: Fuse<Iter>,
    /// The next block begins at this id or later; `None` after the greatest id.
    from: Option<PlantId>,
    entries: vec::IntoIter<(PlantId, Vec<u8>)>,
    last: Option<PlantId>,
}

impl<'a> PlantScan<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        let first = PlantId::MIN;
        let blocks = blocks_from(tree, first);
        Self { tree, blocks, from: Some(first), entries: Vec::new().into_iter(), last: None }
    }

    fn read_block(&mut self) -> Option<anyhow::Result<()>> {
        let from = self.from?;
        let entry = match guarded(|| Ok(self.blocks.next().transpose()?)) {
            Ok(entry) => entry?,
            Err(cause) => {
                self.skip_unreadable(from);
                let until = match self.from {
                    Some(id) => format!("up to id {id}"),
                    None => "up to the last one".to_owned(),
                };
                let lost = format!("no plant from about id {from} {until} can be read");
                return Some(Err(cause.context(lost)));
            }
        };
        let read = Block::new(PLANT_PREFIX, entry).and_then(|block| {
            self.from = block.first.next();
            let entries =
                block.entries().map(|entry| entry.map(|(id, record)| (id, record.to_vec())));
            let entries: Vec<_> = entries.collect::<anyhow::Result<_>>()?;
            check_order(self.last, block.first)?;
            self.last = entries.last().map(|(id, _)| *id);
            self.entries = entries.into_iter();
            Ok(())
        });
        Some(read)
    }

    /// Continues after the unreadable page at `from`. Finds the end of the page with growing steps, then by
    /// bisection.
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
                    // Near the greatest id, start over with small steps.
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
    type Item = anyhow::Result<(PlantId, Vec<u8>)>;

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

fn blocks_from(tree: &Tree, id: PlantId) -> Fuse<Iter> {
    tree.range(plant_keys(id)).fuse()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sled::config::SledConfig;
    use crate::sled::layout::TAG_PREFIX;
    use crate::sled::ordered_map::opening::open_sled;

    #[test]
    fn a_scan_that_has_ended_reads_nothing_after_the_plants() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = SledConfig::new(folder.path());
        let open = || open_sled(&config, folder.path()).expect("a database");
        let entry = |number: u32| {
            let number = number.to_be_bytes();
            ([TAG_PREFIX, &number].concat(), number.repeat(64))
        };
        let db = open();
        for (key, value) in (0..1_000).map(entry) {
            db.insert(key, value).expect("writes");
        }
        // Empties the first leaf, so that a scan of the plants ends where the second leaf begins.
        for (key, _) in (0..12).map(entry) {
            db.remove(key).expect("removes");
        }
        drop(db);
        // The second open makes a snapshot, with which the third one does not notice the damage.
        drop(open());
        let file = folder.path().join("db");
        let mut bytes = fs::read(&file).expect("reads");
        let (_, value) = entry(12);
        let copies: Vec<_> = bytes.windows(value.len()).map(|window| window == value).collect();
        for (byte, _) in bytes.iter_mut().zip(copies).filter(|(_, begins_copy)| *begins_copy) {
            *byte = !*byte;
        }
        fs::write(&file, bytes).expect("writes");

        let db = open();
        let mut unfused = db.range(plant_keys(PlantId::MIN));
        assert!(unfused.next().is_none());
        assert!(matches!(unfused.next(), Some(Err(_))), "sled reads the second leaf");
        let mut scan = PlantScan::new(&db);
        assert!(scan.next().is_none());
        assert!(scan.next().is_none());
    }
}
