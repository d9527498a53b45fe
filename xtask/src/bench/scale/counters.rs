//! The counters that the load generator makes ids of: which come next, and which were created.

use std::fmt::{self, Display, Formatter};

use anyhow::Context as _;

use crate::bench::wrk;

/// How many counters before the end of a window are not read: the answers to the last requests of each
/// connection were not waited for.
const UNSURE: u64 = 2_000;
/// More than any load creates before it is killed.
const SKIPPED_AFTER_KILL: u64 = 10_000_000;

/// Counters that were created, without the one behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    first: u64,
    past: u64,
}

impl Display for Range {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.first, self.past)
    }
}

/// The counters of one store.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    next: u64,
    created: Vec<Range>,
}

impl Counters {
    /// Those of an empty store. They begin with 1, for the script makes an id of 0 of counter 0.
    pub(super) fn new() -> Self {
        Self { next: 1, created: Vec::new() }
    }

    /// The first counter that no load has used.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The counters that were created for sure.
    pub(super) fn created(&self) -> &[Range] {
        &self.created
    }

    /// Takes the counters at which the threads of a load ended, as its script writes them.
    pub(super) fn take_ends(&mut self, ends: &str) -> anyhow::Result<()> {
        let ends: Vec<u64> = ends
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("the script should write counters, and not {ends:?}"))?;
        let slowest = ends.iter().min().context("the script wrote no counters")?;
        let fastest = ends.iter().max().context("the script wrote no counters")?;
        // wrk makes a first request to look at it, and does not send it.
        let first = self.next + u64::from(wrk::MAX_THREADS);
        let past = slowest.saturating_sub(UNSURE);
        if first < past {
            self.created.push(Range { first, past });
        }
        self.next = *fastest;
        Ok(())
    }

    /// Leaves out what a load that was killed may have created.
    pub(super) fn skip(&mut self) {
        self.next += SKIPPED_AFTER_KILL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(counters: &Counters) -> Vec<String> {
        counters.created().iter().map(Range::to_string).collect()
    }

    #[test]
    fn what_every_thread_has_passed_was_created_but_for_the_ends_of_a_window() {
        let mut counters = Counters::new();
        counters.take_ends("50002 60001").unwrap();
        assert_eq!(created(&counters), ["3-48002"]);
        assert_eq!(counters.next(), 60_001);
        counters.take_ends("90001 80002").unwrap();
        assert_eq!(created(&counters), ["3-48002", "60003-78002"]);
    }

    #[test]
    fn a_window_with_few_plants_is_not_read() {
        let mut counters = Counters::new();
        counters.take_ends("1000 1001").unwrap();
        assert!(counters.created().is_empty());
        assert_eq!(counters.next(), 1_001);
    }

    #[test]
    fn no_load_uses_the_counters_of_one_that_was_killed() {
        let mut counters = Counters::new();
        counters.skip();
        assert_eq!(counters.next(), 10_000_001);
        assert!(counters.created().is_empty());
    }

    #[test]
    fn ends_that_are_no_counters_are_an_error() {
        for ends in ["", "nil 3", "-1 3"] {
            assert!(Counters::new().take_ends(ends).is_err(), "{ends:?}");
        }
    }
}
