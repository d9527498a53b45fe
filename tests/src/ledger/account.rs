//! The ledger of one client.

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use fastrand::Rng;
use serde_json::json;

use super::store::Plants;
use super::write::{Change, Told, Write, in_few_words};
use crate::client::Client;
use crate::plant::NewPlant;

/// How many plants each client has at most.
const PLANTS: i64 = 64;

/// What the ids of its requests begin with.
pub(super) const REQUEST_ID_PREFIX: &str = "ledger-";

/// What one client has written, one write after the other, and nobody else writes.
#[derive(Debug)]
pub(super) struct Account {
    number: i64,
    /// Where each write stands before it is sent, and what was told of it.
    file: File,
    /// What was there for sure before the writes.
    settled: Plants,
    /// The changes of each write that may have been carried out.
    writes: Vec<Vec<Change>>,
    /// How many of the writes were acknowledged: the first ones. The others are in doubt.
    pub(super) acknowledged: usize,
    /// How many of the changes were carried out at least, for a read has shown the last of them.
    seen: usize,
    /// How many writes were ever acknowledged.
    pub(super) total: u64,
}

impl Account {
    pub(super) fn new(number: i64, folder: &Path) -> Self {
        let file = File::create(folder.join(number.to_string())).expect("a file can be made");
        Self {
            number,
            file,
            settled: Plants::new(),
            writes: Vec::new(),
            acknowledged: 0,
            seen: 0,
            total: 0,
        }
    }

    fn ids(&self) -> Range<i64> {
        self.number * PLANTS..(self.number + 1) * PLANTS
    }

    pub(super) fn owns(&self, id: i64) -> bool {
        self.ids().contains(&id)
    }

    /// How many writes are in doubt.
    pub(super) fn doubts(&self) -> usize {
        self.writes.len() - self.acknowledged
    }

    /// How many of its writes were acknowledged, where `is_answered` says of a request id whether it was
    /// answered with success.
    pub(super) fn acknowledged_in(&self, is_answered: impl Fn(&str) -> bool) -> usize {
        (0..self.writes.len()).take_while(|write| is_answered(&self.request_id(*write))).count()
    }

    fn request_id(&self, write: usize) -> String {
        format!("{REQUEST_ID_PREFIX}{}-{write}", self.number)
    }

    /// Writes until `is_over` says so of what was told. Returns the last of that.
    pub(super) fn write(
        &mut self,
        client: &Client,
        chance: &mut Rng,
        most_rows: usize,
        mut is_over: impl FnMut(Told) -> bool,
    ) -> Told {
        let mut plants = self.plants_after(self.acknowledged);
        loop {
            let write = Write::any(&plants, self.ids(), most_rows, chance);
            let changes = write.changes.iter();
            let changes =
                changes.map(|Change { id, after }| (id, after.as_ref().map(NewPlant::json)));
            self.note(&json!({ "send": changes.collect::<Vec<_>>() }));
            self.writes.push(write.changes.clone());
            let told = write.send(client, &self.request_id(self.writes.len() - 1));
            self.note(&json!({ "told": format!("{told:?}") }));
            match told {
                Told::Acknowledged(_) => {
                    self.acknowledged += 1;
                    self.total += 1;
                    assert_eq!(self.doubts(), 0, "acknowledged after a write in doubt");
                    write.changes.iter().for_each(|change| change.apply(&mut plants));
                }
                Told::Refused => drop(self.writes.pop()),
                Told::DiskFull if write.changes.len() == 1 => drop(self.writes.pop()),
                Told::DiskFull | Told::StoreFailed | Told::Nothing => {}
            }
            if is_over(told) {
                return told;
            }
        }
    }

    fn note(&mut self, line: &serde_json::Value) {
        writeln!(self.file, "{line}").expect("a ledger can be written");
    }

    /// The plants of this client when so many of its writes are carried out.
    fn plants_after(&self, writes: usize) -> Plants {
        let mut plants = self.settled.clone();
        self.writes[..writes].iter().flatten().for_each(|change| change.apply(&mut plants));
        plants
    }

    /// Remembers what reads have shown: it and what was written before it must stay.
    pub(super) fn see(&mut self, shown: &Plants) {
        for (id, plant) in shown.range(self.ids()) {
            let mut changes = self.writes.iter().flatten();
            match changes.position(|change| change.after.as_ref() == Some(plant)) {
                Some(position) => self.seen = self.seen.max(position + 1),
                None => assert_eq!(self.settled.get(id), Some(plant), "a read showed it"),
            }
        }
    }

    /// Whether a store holds what this client knows: of its changes all that were acknowledged or seen
    /// are carried out and, in their order, some of the others, as far as they were sent. Returns how many
    /// of those that are carried out have made a plant another one.
    pub(super) fn check(
        &self,
        store: &Plants,
        acknowledged: usize,
        sent: usize,
    ) -> Result<usize, String> {
        let mine = self.plants_in(store);
        let sure = self.writes[..acknowledged].iter().map(Vec::len).sum::<usize>().max(self.seen);
        let changes = || self.writes[..sent].iter().flatten();
        let (mut expected, mut carried_out) = (self.settled.clone(), 0);
        let mut carry_out = |change: &Change, plants: &mut Plants| {
            carried_out += usize::from(plants.get(&change.id) != change.after.as_ref());
            change.apply(plants);
        };
        changes().take(sure).for_each(|change| carry_out(change, &mut expected));
        let mut possible = expected.clone();
        let mut doubts = changes().skip(sure);
        while possible != mine {
            match doubts.next() {
                Some(change) => carry_out(change, &mut possible),
                None => return Err(self.difference(&mine, &expected, changes().skip(sure))),
            }
        }
        Ok(carried_out)
    }

    fn plants_in(&self, store: &Plants) -> Plants {
        store.range(self.ids()).map(|(id, plant)| (*id, plant.clone())).collect()
    }

    fn difference<'a>(
        &self,
        mine: &Plants,
        expected: &Plants,
        doubts: impl Iterator<Item = &'a Change>,
    ) -> String {
        let differs = |id: &i64| mine.get(id) != expected.get(id);
        let shown = |id| {
            let (is, should_be) = (in_few_words(mine.get(&id)), in_few_words(expected.get(&id)));
            format!("plant {id} is {is} and should be {should_be}")
        };
        let different: Vec<String> = self.ids().filter(differs).map(shown).collect();
        let doubts: Vec<String> = doubts.map(Change::to_string).collect();
        format!("client {}: {different:#?}; in doubt is {doubts:#?}", self.number)
    }

    /// Takes the store as it is for what there was before all that comes.
    pub(super) fn settle(&mut self, store: &Plants) {
        self.settled = self.plants_in(store);
        self.writes.clear();
        (self.acknowledged, self.seen) = (0, 0);
    }
}
