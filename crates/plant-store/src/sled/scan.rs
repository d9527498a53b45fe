//! All plants of a database of which some cannot be read.

use plant_domain::PlantId;
use sled::{IVec, Tree};

use super::guarded::guarded;
use super::layout::{plant_id, plant_keys};

/// The keys and records of the plants in the order of their ids. Where some cannot be read, that is an
/// error, and those behind them follow.
pub(super) struct PlantScan<'a> {
    tree: &'a Tree,
    entries: sled::Iter,
    /// The id that the next plant has at least; none behind the greatest.
    from: Option<PlantId>,
}

impl<'a> PlantScan<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        let first = PlantId::MIN;
        Self { tree, entries: tree.range(plant_keys(first)), from: Some(first) }
    }

    /// Goes on behind the page that begins at `from` or holds it. Where it ends is not known, so it is
    /// looked for in growing steps.
    fn skip_unreadable(&mut self, from: PlantId) {
        let readable = |id: i64| {
            let mut entries = self.tree.range(plant_keys(PlantId::from(id)));
            guarded(|| Ok(entries.next().transpose()?)).is_ok()
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
        self.entries = self.tree.range(plant_keys(found));
        self.from = Some(found);
    }
}

impl Iterator for PlantScan<'_> {
    type Item = anyhow::Result<(PlantId, IVec, IVec)>;

    fn next(&mut self) -> Option<Self::Item> {
        let from = self.from?;
        match guarded(|| Ok(self.entries.next().transpose()?)) {
            Ok(None) => None,
            Ok(Some((key, value))) => Some(plant_id(&key).map(|id| {
                self.from = id.next();
                (id, key, value)
            })),
            Err(cause) => {
                self.skip_unreadable(from);
                let until = match self.from {
                    Some(id) => format!("up to id {id}"),
                    None => "up to the last one".to_owned(),
                };
                Some(Err(cause.context(format!("no plant from id {from} {until} can be read"))))
            }
        }
    }
}
