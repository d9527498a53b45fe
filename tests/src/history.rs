//! Histories of operations that run at the same time on one plant, and whether they can have happened
//! one after the other, each at some moment between its request and its answer (Herlihy and Wing,
//! "Linearizability", 1990; the search is that of Wing and Gong, with Lowe's memory of what was tried).

use std::collections::HashSet;

/// What a plant is: a name, a tag, and the revision where it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Its tag.
    pub tag: Option<String>,
    /// Its revision; nobody was told that of a write without an answer.
    pub revision: Option<u64>,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub enum HistoryOperation {
    /// Create it with this name and tag.
    Create(String, Option<String>),
    /// Replace it, or make it.
    Put(String, Option<String>),
    /// Give it another tag.
    Retag(Option<String>),
    /// Delete it.
    Delete,
    /// Read it.
    Read,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made, and has this revision.
    Made(u64),
    /// It was there and is as asked for now, with this revision.
    Changed(u64),
    /// It is gone.
    Deleted,
    /// This is what it is.
    Seen(State),
    /// It is there already.
    Taken,
    /// It is not there.
    Missing,
}

/// One operation of a history.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When the request was sent, on the clock of the history.
    pub begun: u64,
    /// When the answer was there, or when it was sure that nothing would happen any more.
    pub ended: u64,
    /// What was asked for.
    pub operation: HistoryOperation,
    /// What was answered; none where there was no answer.
    pub outcome: Option<Outcome>,
}

/// Whether the operations can have happened one after the other, on a plant that is not there before.
///
/// # Errors
///
/// When they cannot. It says how far the search has come.
pub fn check(history: &[Entry]) -> Result<(), String> {
    let mut entries: Vec<&Entry> = history.iter().collect();
    entries.sort_unstable_by_key(|entry| entry.begun);
    let mut search = Search { entries, tried: HashSet::new(), furthest: 0 };
    let mut open = vec![(Done::default(), None)];
    while let Some((done, state)) = open.pop() {
        if done.first == search.entries.len() {
            return Ok(());
        }
        search.furthest = search.furthest.max(done.first);
        open.extend(search.next(&done, &state));
    }
    let around = search.furthest.saturating_sub(3)..search.entries.len().min(search.furthest + 9);
    Err(format!(
        "{} operations cannot have happened one after the other; stuck among {:#?}",
        search.entries.len(),
        &search.entries[around]
    ))
}

/// Which entries have happened: all before `first`, and some of the later ones, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Done {
    first: usize,
    later: Vec<usize>,
}

impl Done {
    fn with(&self, entry: usize) -> Self {
        let mut done = self.clone();
        let place = done.later.partition_point(|later| *later < entry);
        done.later.insert(place, entry);
        while done.later.first() == Some(&done.first) {
            done.later.remove(0);
            done.first += 1;
        }
        done
    }
}

/// What there was to try, and what was tried.
struct Search<'a> {
    entries: Vec<&'a Entry>,
    tried: HashSet<(Done, Option<State>)>,
    furthest: usize,
}

impl Search<'_> {
    /// What may be after one more operation.
    fn next(&mut self, done: &Done, state: &Option<State>) -> Vec<(Done, Option<State>)> {
        let mut next = Vec::new();
        // An operation that begins after another one's end comes after it.
        let mut earliest_end = u64::MAX;
        for (index, entry) in self.entries.iter().enumerate().skip(done.first) {
            if entry.begun > earliest_end {
                break;
            }
            if done.later.binary_search(&index).is_ok() {
                continue;
            }
            earliest_end = earliest_end.min(entry.ended);
            for after in entry.states_after(state) {
                let step = (done.with(index), after);
                if self.tried.insert(step.clone()) {
                    next.push(step);
                }
            }
        }
        next
    }
}

impl Entry {
    /// What the plant may be after the operation, if the answer fits what it was before.
    fn states_after(&self, before: &Option<State>) -> Vec<Option<State>> {
        let Some(outcome) = &self.outcome else {
            // It has happened, or it never will.
            return vec![self.unanswered(before), before.clone()];
        };
        let after = match (&self.operation, outcome, before) {
            (
                HistoryOperation::Create(name, tag) | HistoryOperation::Put(name, tag),
                Outcome::Made(revision),
                None,
            ) => Some(state(name, tag.as_ref(), *revision)),
            (HistoryOperation::Create(..), Outcome::Taken, Some(_)) => before.clone(),
            (HistoryOperation::Put(name, tag), Outcome::Changed(revision), Some(before)) => {
                return before.become_in(state(name, tag.as_ref(), *revision));
            }
            (HistoryOperation::Retag(tag), Outcome::Changed(revision), Some(before)) => {
                return before.become_in(state(&before.name, tag.as_ref(), *revision));
            }
            (HistoryOperation::Delete, Outcome::Deleted, Some(_)) => None,
            (
                HistoryOperation::Retag(_) | HistoryOperation::Delete | HistoryOperation::Read,
                Outcome::Missing,
                None,
            ) => None,
            (HistoryOperation::Read, Outcome::Seen(seen), Some(before)) if before.may_be(seen) => {
                Some(seen.clone())
            }
            _ => return Vec::new(),
        };
        vec![after]
    }

    fn unanswered(&self, before: &Option<State>) -> Option<State> {
        let state = |name: &str, tag: Option<&String>| State {
            name: name.to_owned(),
            tag: tag.cloned(),
            revision: None,
        };
        match (&self.operation, before) {
            (HistoryOperation::Create(name, tag), None) | (HistoryOperation::Put(name, tag), _) => {
                Some(state(name, tag.as_ref()))
            }
            (HistoryOperation::Retag(tag), Some(before)) => Some(state(&before.name, tag.as_ref())),
            (HistoryOperation::Delete, _) => None,
            (
                HistoryOperation::Create(..) | HistoryOperation::Read | HistoryOperation::Retag(_),
                _,
            ) => before.clone(),
        }
    }
}

impl State {
    /// What it is after a change to `after`, if that has a fitting revision: the same one where nothing
    /// changes, else a later one.
    fn become_in(&self, after: Self) -> Vec<Option<Self>> {
        let is_same = (&self.name, &self.tag) == (&after.name, &after.tag);
        let fits = match (self.revision, after.revision) {
            (Some(before), Some(after)) => {
                if is_same {
                    before == after
                } else {
                    before < after
                }
            }
            _ => true,
        };
        if fits { vec![Some(after)] } else { Vec::new() }
    }

    fn may_be(&self, seen: &Self) -> bool {
        (&self.name, &self.tag) == (&seen.name, &seen.tag)
            && self.revision.is_none_or(|revision| Some(revision) == seen.revision)
    }
}

fn state(name: &str, tag: Option<&String>, revision: u64) -> State {
    State { name: name.to_owned(), tag: tag.cloned(), revision: Some(revision) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(begun: u64, ended: u64, operation: HistoryOperation, outcome: Outcome) -> Entry {
        Entry { begun, ended, operation, outcome: Some(outcome) }
    }

    fn create(begun: u64, ended: u64, revision: u64) -> Entry {
        entry(
            begun,
            ended,
            HistoryOperation::Create("Rosa".to_owned(), None),
            Outcome::Made(revision),
        )
    }

    fn put(begun: u64, ended: u64, name: &str, revision: u64) -> Entry {
        entry(
            begun,
            ended,
            HistoryOperation::Put(name.to_owned(), None),
            Outcome::Changed(revision),
        )
    }

    fn read(begun: u64, ended: u64, name: &str, revision: u64) -> Entry {
        entry(begun, ended, HistoryOperation::Read, Outcome::Seen(state(name, None, revision)))
    }

    fn missing(begun: u64, ended: u64) -> Entry {
        entry(begun, ended, HistoryOperation::Read, Outcome::Missing)
    }

    fn unanswered(begun: u64, ended: u64, operation: HistoryOperation) -> Entry {
        Entry { begun, ended, operation, outcome: None }
    }

    #[test]
    fn operations_at_the_same_time_may_have_happened_in_any_order() {
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
    fn a_write_without_an_answer_may_have_happened_or_not_but_not_later() {
        let lost = unanswered(2, 4, HistoryOperation::Delete);
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
            // Two creates win.
            vec![create(0, 3, 1), create(1, 4, 2)],
            // An acknowledged write is lost.
            vec![create(0, 1, 1), put(2, 3, "Abies", 2), read(4, 5, "Rosa", 1)],
            vec![create(0, 1, 1), missing(2, 3)],
            // A plant comes back, or was never sent.
            vec![create(0, 1, 1), deleted.clone(), read(4, 5, "Rosa", 1)],
            vec![read(0, 1, "Rosa", 1)],
            vec![taken],
            // A revision goes back, is used again, or changes by itself.
            vec![create(0, 1, 5), put(2, 3, "Abies", 4)],
            vec![create(0, 1, 5), put(2, 3, "Rosa", 6)],
            vec![create(0, 1, 1), read(2, 3, "Rosa", 2)],
        ];
        for fault in faults {
            assert!(check(&fault).is_err(), "{fault:#?}");
        }
    }
}
