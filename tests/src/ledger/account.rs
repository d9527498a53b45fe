//! The ledger of one client.

use std::ops::Range;

use fastrand::Rng;

use super::store::Plants;
use super::write::{Change, Step, Write, WriteOutcome, in_few_words};
use crate::client::Client;

/// The most plants of a client.
const PLANTS: i64 = 64;

/// The prefix of the ids of its requests.
pub(super) const REQUEST_ID_PREFIX: &str = "ledger-";

/// The sequential writes of one client to plants that no other client writes.
#[derive(Debug, Default)]
pub(super) struct Account {
    number: i64,
    /// The plants before the writes.
    settled: Plants,
    /// The steps of each write that may have been carried out.
    writes: Vec<Vec<Step>>,
    /// How many of the writes, from the first, were acknowledged. The others are in doubt.
    pub(super) acknowledged: usize,
    /// How many of the steps, from the first, must have been carried out, because a read has shown the last of them.
    seen: usize,
    /// How many writes were ever acknowledged.
    pub(super) total: u64,
}

impl Account {
    pub(super) fn new(number: i64) -> Self {
        Self { number, ..Self::default() }
    }

    fn ids(&self) -> Range<i64> {
        self.number * PLANTS..(self.number + 1) * PLANTS
    }

    pub(super) fn owns(&self, id: i64) -> bool {
        self.ids().contains(&id)
    }

    /// How many writes were acknowledged or are in doubt.
    pub(super) fn sent(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn doubts(&self) -> usize {
        self.sent() - self.acknowledged
    }

    /// How many writes, from the first, have request ids that `is_answered` accepts.
    pub(super) fn acknowledged_in(&self, is_answered: impl Fn(&str) -> bool) -> usize {
        (0..self.sent()).take_while(|write| is_answered(&self.request_id(*write))).count()
    }

    fn request_id(&self, write: usize) -> String {
        format!("{REQUEST_ID_PREFIX}{}-{write}", self.number)
    }

    /// Writes until `is_over` accepts an outcome, and returns that outcome.
    pub(super) fn write(
        &mut self,
        client: &Client,
        chance: &mut Rng,
        most_rows: usize,
        mut is_over: impl FnMut(WriteOutcome) -> bool,
    ) -> WriteOutcome {
        let mut plants = self.settled.clone();
        let acknowledged = self.writes[..self.acknowledged].iter().flatten().flatten();
        acknowledged.for_each(|change| change.apply(&mut plants));
        loop {
            let write = Write::any(&plants, self.ids(), most_rows, chance);
            let told = write.send(client, &self.request_id(self.sent()));
            let is_whole = write.steps.len() == 1;
            match told {
                WriteOutcome::Refused => {}
                WriteOutcome::DiskFull if is_whole => {}
                WriteOutcome::Acknowledged(_) => {
                    assert_eq!(self.doubts(), 0, "acknowledged after a write in doubt");
                    write.steps.iter().flatten().for_each(|change| change.apply(&mut plants));
                    self.writes.push(write.steps);
                    self.acknowledged += 1;
                    self.total += 1;
                }
                WriteOutcome::DiskFull | WriteOutcome::StoreFailed | WriteOutcome::NoAnswer => {
                    self.writes.push(write.steps);
                }
            }
            if is_over(told) {
                return told;
            }
        }
    }

    /// Records that these plants were shown, so their changes and all earlier ones must persist.
    pub(super) fn see(&mut self, shown: &Plants) {
        for (id, plant) in shown.range(self.ids()) {
            // A step may leave a plant as it was, so a plant that was there before all steps proves none of them.
            if self.settled.get(id) == Some(plant) {
                continue;
            }
            let shows = |change: &Change| change.after.as_ref() == Some(plant);
            let position = self.writes.iter().flatten().position(|step| step.iter().any(shows));
            let position = position.unwrap_or_else(|| panic!("nobody sent {plant:?}"));
            self.seen = self.seen.max(position + 1);
        }
    }

    /// Whether a store holds all steps that were acknowledged or seen and, in their order, some of the others up to
    /// `sent`, each as a whole. Returns how many of the changes in it had an effect.
    pub(super) fn check(
        &self,
        store: &Plants,
        acknowledged: usize,
        sent: usize,
    ) -> Result<usize, String> {
        let mine = self.plants_in(store);
        let sure = self.writes[..acknowledged].iter().map(Vec::len).sum::<usize>().max(self.seen);
        let steps = || self.writes[..sent].iter().flatten();
        let (mut expected, mut carried_out) = (self.settled.clone(), 0);
        let mut carry_out = |step: &Step, plants: &mut Plants| {
            for change in step {
                carried_out += usize::from(plants.get(&change.id) != change.after.as_ref());
                change.apply(plants);
            }
        };
        steps().take(sure).for_each(|step| carry_out(step, &mut expected));
        let mut possible = expected.clone();
        let mut doubts = steps().skip(sure);
        while possible != mine {
            match doubts.next() {
                Some(step) => carry_out(step, &mut possible),
                None => {
                    let doubts = steps().skip(sure).flatten();
                    return Err(self.difference(&mine, &expected, doubts));
                }
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

    pub(super) fn settle(&mut self, store: &Plants) {
        self.settled = self.plants_in(store);
        self.writes.clear();
        (self.acknowledged, self.seen) = (0, 0);
    }
}
