//! A check for linearizability: whether concurrent operations on one plant can have happened one after the
//! other, each at some moment between its request and its answer (Herlihy and Wing, "Linearizability", 1990). The
//! search is that of Wing and Gong, with Lowe's cache of visited states.

use std::collections::HashSet;

/// The state of a plant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Its tag.
    pub tag: Option<String>,
    /// Its revision, unless it was written by an operation without an answer.
    pub revision: Option<u64>,
}

/// A request.
#[derive(Clone, Debug)]
pub enum HistoryOperation {
    /// Create the plant with this name and tag.
    Create(String, Option<String>),
    /// Replace or create it.
    Put(String, Option<String>),
    /// Change its tag.
    Retag(Option<String>),
    /// Delete it.
    Delete,
    /// Read it.
    Read,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plant was created, with this revision.
    Made(u64),
    /// The plant existed, and now has this revision.
    Changed(u64),
    /// The plant was deleted.
    Deleted,
    /// The state of the plant.
    Seen(State),
    /// The plant exists already.
    Taken,
    /// The plant does not exist.
    Missing,
}

/// One operation of a history.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When the request was sent, on the clock of the history.
    pub begun: u64,
    /// When the answer had arrived, or when the operation could no longer take effect.
    pub ended: u64,
    /// The request.
    pub operation: HistoryOperation,
    /// The answer, if there was one.
    pub outcome: Option<Outcome>,
}

/// Checks all operations on a plant that did not exist before them.
///
/// # Errors
///
/// When they cannot have happened one after the other. The message shows where the search got stuck.
pub fn check(history: &[Entry]) -> Result<(), String> {
    let mut entries: Vec<&Entry> = history.iter().collect();
    entries.sort_unstable_by_key(|entry| entry.begun);
    let (mut tried, mut furthest) = (HashSet::new(), 0);
    let mut open = vec![(Done::default(), None)];
    while let Some((done, state)) = open.pop() {
        if done.first == entries.len() {
            return Ok(());
        }
        furthest = furthest.max(done.first);
        // An operation that begins after the end of another one comes after it.
        let mut earliest_end = u64::MAX;
        for (index, entry) in entries.iter().enumerate().skip(done.first) {
            if entry.begun > earliest_end {
                break;
            }
            if done.later.binary_search(&index).is_ok() {
                continue;
            }
            earliest_end = earliest_end.min(entry.ended);
            for after in entry.states_after(&state) {
                let step = (done.with(index), after);
                if tried.insert(step.clone()) {
                    open.push(step);
                }
            }
        }
    }
    let around = furthest.saturating_sub(3)..entries.len().min(furthest + 9);
    Err(format!(
        "{} operations cannot have happened one after the other; stuck among {:#?}",
        entries.len(),
        &entries[around]
    ))
}

/// The entries that have happened: all before `first`, and some of the later ones, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Done {
    first: usize,
    later: Vec<usize>,
}

impl Done {
    fn with(&self, entry: usize) -> Self {
        let mut done = self.clone();
        let index = done.later.partition_point(|later| *later < entry);
        done.later.insert(index, entry);
        while done.later.first() == Some(&done.first) {
            done.later.remove(0);
            done.first += 1;
        }
        done
    }
}

impl Entry {
    /// The states of the plant after the operation; none if the answer contradicts the state before.
    fn states_after(&self, before: &Option<State>) -> Vec<Option<State>> {
        use HistoryOperation::{Create, Delete, Put, Read, Retag};
        let Some(outcome) = &self.outcome else {
            // It has happened, or it never will.
            return vec![self.effect(before, None), before.clone()];
        };
        let after = match (&self.operation, outcome, before) {
            (Create(..) | Put(..), Outcome::Made(revision), None) => {
                self.effect(before, Some(*revision))
            }
            (Put(..) | Retag(_), Outcome::Changed(revision), Some(old)) => {
                let after = self.effect(before, Some(*revision));
                if !after.as_ref().is_some_and(|new| old.may_become(new)) {
                    return Vec::new();
                }
                after
            }
            (Delete, Outcome::Deleted, Some(_)) => None,
            (Create(..), Outcome::Taken, Some(_)) => before.clone(),
            (Retag(_) | Delete | Read, Outcome::Missing, None) => None,
            (Read, Outcome::Seen(seen), Some(old)) if old.may_be(seen) => Some(seen.clone()),
            _ => return Vec::new(),
        };
        vec![after]
    }

    /// The state of the plant after the operation, if a write gives it this revision.
    fn effect(&self, before: &Option<State>, revision: Option<u64>) -> Option<State> {
        let state = |name: &String, tag: &Option<String>| {
            Some(State { name: name.clone(), tag: tag.clone(), revision })
        };
        match (&self.operation, before) {
            (HistoryOperation::Create(name, tag), None) | (HistoryOperation::Put(name, tag), _) => {
                state(name, tag)
            }
            (HistoryOperation::Retag(tag), Some(before)) => state(&before.name, tag),
            (HistoryOperation::Delete, _) => None,
            _ => before.clone(),
        }
    }
}

impl State {
    fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.tag) == (&other.name, &other.tag)
    }

    /// Whether the revisions fit: a no-op keeps the revision, any other change raises it.
    fn may_become(&self, after: &Self) -> bool {
        match (self.revision, after.revision) {
            (Some(before), Some(revision)) if self.is_same(after) => before == revision,
            (Some(before), Some(revision)) => before < revision,
            _ => true,
        }
    }

    fn may_be(&self, seen: &Self) -> bool {
        self.is_same(seen) && self.revision.is_none_or(|revision| Some(revision) == seen.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(begun: u64, ended: u64, operation: HistoryOperation, outcome: Outcome) -> Entry {
        Entry { begun, ended, operation, outcome: Some(outcome) }
    }

    fn create(begun: u64, ended: u64, revision: u64) -> Entry {
        let create = HistoryOperation::Create("Rosa".to_owned(), None);
        entry(begun, ended, create, Outcome::Made(revision))
    }

    fn put(begun: u64, ended: u64, name: &str, revision: u64) -> Entry {
        let put = HistoryOperation::Put(name.to_owned(), None);
        entry(begun, ended, put, Outcome::Changed(revision))
    }

    fn read(begun: u64, ended: u64, name: &str, revision: u64) -> Entry {
        let state = State { name: name.to_owned(), tag: None, revision: Some(revision) };
        entry(begun, ended, HistoryOperation::Read, Outcome::Seen(state))
    }

    fn missing(begun: u64, ended: u64) -> Entry {
        entry(begun, ended, HistoryOperation::Read, Outcome::Missing)
    }

    #[test]
    fn concurrent_operations_may_have_happened_in_any_order() {
        let history =
            [create(0, 1, 1), put(2, 9, "Abies", 2), read(3, 4, "Rosa", 1), read(5, 6, "Abies", 2)];
        assert_eq!(check(&history), Ok(()));
        let history = [
            create(0, 1, 1),
            put(2, 9, "Abies", 2),
            read(3, 4, "Abies", 2),
            read(5, 6, "Abies", 2),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn a_write_without_an_answer_happens_before_its_end_or_never() {
        let delete = HistoryOperation::Delete;
        let lost = Entry { begun: 2, ended: 4, operation: delete, outcome: None };
        assert_eq!(check(&[create(0, 1, 1), lost.clone(), missing(5, 6)]), Ok(()));
        assert_eq!(check(&[create(0, 1, 1), lost.clone(), read(5, 6, "Rosa", 1)]), Ok(()));
        let late = [create(0, 1, 1), lost, read(5, 6, "Rosa", 1), missing(7, 8)];
        assert!(check(&late).is_err());
    }

    #[test]
    fn a_planted_fault_is_found() {
        let deleted = entry(2, 3, HistoryOperation::Delete, Outcome::Deleted);
        let taken = entry(0, 1, HistoryOperation::Create("Rosa".to_owned(), None), Outcome::Taken);
        let faults = [
            // A read goes back in time.
            vec![
                create(0, 1, 1),
                put(2, 9, "Abies", 2),
                read(3, 4, "Abies", 2),
                read(5, 6, "Rosa", 1),
            ],
            // Two creates succeed.
            vec![create(0, 3, 1), create(1, 4, 2)],
            // An acknowledged write is lost.
            vec![create(0, 1, 1), put(2, 3, "Abies", 2), read(4, 5, "Rosa", 1)],
            vec![create(0, 1, 1), missing(2, 3)],
            // A plant comes back, or was never written.
            vec![create(0, 1, 1), deleted.clone(), read(4, 5, "Rosa", 1)],
            vec![read(0, 1, "Rosa", 1)],
            vec![taken],
            // A revision goes back, or changes by itself.
            vec![create(0, 1, 5), put(2, 3, "Abies", 4)],
            vec![create(0, 1, 5), put(2, 3, "Rosa", 6)],
            vec![create(0, 1, 1), read(2, 3, "Rosa", 2)],
        ];
        for fault in faults {
            assert!(check(&fault).is_err(), "{fault:#?}");
        }
    }
}
