//! What clients were told, held against what a server has.

use std::collections::{BTreeMap, BTreeSet};

use plantd_tests::{Client, Format, NewPlant};

/// A plant as it is after a write; `None` where it was deleted, or never there.
pub(super) type State = Option<NewPlant>;

/// What is known of the plants that some clients wrote. Each of them writes plants of its own, one
/// request after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    acknowledged: BTreeMap<i64, State>,
    /// What a write that came later may have made of a plant, or not: it was answered with 5002, or
    /// not at all.
    doubtful: BTreeMap<i64, Vec<State>>,
    writes: u64,
}

impl Ledger {
    pub(super) fn acknowledge(&mut self, id: i64, state: State) {
        assert!(!self.doubtful.contains_key(&id), "plant {id} was written after a failure");
        self.acknowledged.insert(id, state);
        self.writes += 1;
    }

    pub(super) fn doubt(&mut self, id: i64, state: State) {
        self.doubtful.entry(id).or_default().push(state);
    }

    /// How many writes were acknowledged.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// How many writes have an outcome that is not known.
    pub(super) fn doubts(&self) -> usize {
        self.doubtful.values().map(Vec::len).sum()
    }

    /// Adds what other clients wrote, who have plants of their own.
    pub(super) fn add(&mut self, other: Self) {
        self.acknowledged.extend(other.acknowledged);
        self.doubtful.extend(other.doubtful);
        self.writes += other.writes;
    }

    /// Claims that the server has every acknowledged write, that each other one is there whole or not
    /// at all, and nothing else. What was in doubt is known then.
    #[track_caller]
    pub(super) fn check(&mut self, client: &Client) {
        let export = client.export(Format::Ndjson);
        let lines = export.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut found: BTreeMap<i64, NewPlant> = lines
            .map(|line| serde_json::from_slice(line).expect("a line is JSON"))
            .map(|value| NewPlant::from_json(&value))
            .map(|plant| (plant.id, plant))
            .collect();
        let total = client.list("limit=1").header("x-total-count").map(str::to_owned);
        assert_eq!(total, Some(found.len().to_string()), "the count of plants");

        let ids: BTreeSet<i64> =
            self.acknowledged.keys().chain(self.doubtful.keys()).copied().collect();
        for id in ids {
            let is = found.remove(&id);
            let was = self.acknowledged.entry(id).or_default();
            let may_be = self.doubtful.remove(&id).unwrap_or_default();
            assert!(
                is == *was || may_be.contains(&is),
                "plant {id} was acknowledged as {was:?}, may be one of {may_be:?}, and is {is:?}"
            );
            *was = is;
        }
        assert!(found.is_empty(), "plants that nobody wrote: {found:?}");
    }
}
