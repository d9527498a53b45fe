//! How the rate of creates, the memory and the disk go as a store grows.

use serde::Serialize;

use super::memory::Memory;
use super::options::{Pace, SMALL_PLANTS};
use super::store::{Server, Store, Workbench};
use crate::bench::wrk::Outcome;

/// How fast plants come, before that was measured.
const FIRST_GUESS_PER_S: u64 = 30_000;
/// Creates before a window at the full size, which the processes of both sizes have had.
const WARM_UP_S: u32 = 1;

/// A stretch of creates, and what was there at its end.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Window {
    pub(super) plants: u64,
    pub(super) disk_bytes: u64,
    pub(super) memory: Memory,
    pub(super) creates: Outcome,
}

/// A window at a size: from that many plants on.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Rate {
    pub(super) plants: u64,
    pub(super) creates: Outcome,
    /// At its end.
    pub(super) memory: Memory,
}

/// A window in a small store and one in the large store, one right after the other.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Pair {
    pub(super) small: Rate,
    pub(super) large: Rate,
}

impl Pair {
    /// The rate of the large store divided by that of the small one.
    pub(super) fn ratio(&self) -> f64 {
        self.large.creates.requests_per_s() / self.small.creates.requests_per_s()
    }
}

/// Fills a store, window by window.
pub(super) fn grow(
    server: &mut Server<'_, '_>,
    plants: u64,
    pace: &Pace,
) -> anyhow::Result<Vec<Window>> {
    let mut windows = Vec::new();
    let mut creates_per_s = FIRST_GUESS_PER_S;
    let mut there = server.plants()?;
    while there < plants {
        let creates = server.create(window_s(plants - there, creates_per_s, pace.window_s))?;
        there = server.plants()?;
        println!("{there} plants: {:.0} creates/s", creates.requests_per_s());
        creates_per_s = creates.requests * 1_000_000 / creates.duration_us;
        windows.push(Window {
            plants: there,
            disk_bytes: server.disk_bytes()?,
            memory: server.memory()?,
            creates,
        });
    }
    Ok(windows)
}

/// How long a window has to be for so many plants, at most `longest_s`.
fn window_s(plants: u64, creates_per_s: u64, longest_s: u32) -> u32 {
    let needed_s = plants.div_ceil(creates_per_s.max(1)).max(1);
    u32::try_from(needed_s).map_or(longest_s, |needed_s| needed_s.min(longest_s))
}

/// Compares the large store with a small one that is made for it.
pub(super) fn compare(
    large: &mut Server<'_, '_>,
    place: &Workbench,
    pace: &Pace,
) -> anyhow::Result<Pair> {
    let small = Store::new(place)?.run(&[], |server| {
        server.fill(SMALL_PLANTS)?;
        rate(server, pace)
    })?;
    large.create(WARM_UP_S)?;
    Ok(Pair { small, large: rate(large, pace)? })
}

fn rate(server: &mut Server<'_, '_>, pace: &Pace) -> anyhow::Result<Rate> {
    let plants = server.plants()?;
    let creates = server.create(pace.rate_s)?;
    Ok(Rate { plants, creates, memory: server.memory()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_as_long_as_the_last_plants_need_and_never_longer_than_asked_for() {
        assert_eq!(window_s(10_000_000, 30_000, 10), 10);
        assert_eq!(window_s(90_001, 30_000, 10), 4);
        assert_eq!(window_s(1, 30_000, 10), 1);
        assert_eq!(window_s(u64::MAX, 0, 10), 10);
    }
}
