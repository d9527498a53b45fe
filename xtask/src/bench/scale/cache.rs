//! What memory for the cache buys: the same store behind caches of several sizes.

use serde::Serialize;

use super::memory::Memory;
use super::options::Pace;
use super::store::{Start, Store};
use crate::bench::wrk::Outcome;

const SIZES_MB: [u32; 6] = [16, 32, 64, 128, 256, 512];
const WINDOWS: usize = 2;

/// One size of the cache.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Point {
    pub(super) cache_mb: u32,
    pub(super) start: Start,
    pub(super) creates: Vec<Outcome>,
    pub(super) reads: Outcome,
    pub(super) memory: Memory,
}

impl Point {
    /// Over all windows.
    pub(super) fn creates_per_s(&self) -> f64 {
        let (requests, duration_us) = self.creates.iter().fold((0, 0), |(requests, us), window| {
            (requests + window.requests, us + window.duration_us)
        });
        requests as f64 / (duration_us as f64 / 1_000_000.0)
    }
}

/// Measures each size on a copy of its own of `store`.
pub(super) fn curve(store: &Store<'_>, pace: &Pace) -> anyhow::Result<Vec<Point>> {
    SIZES_MB
        .into_iter()
        .map(|cache_mb| {
            let point = measure(store, cache_mb, pace)?;
            println!(
                "--cache-mb {cache_mb}: {:.0} creates/s, {:.0} reads/s",
                point.creates_per_s(),
                point.reads.requests_per_s()
            );
            Ok(point)
        })
        .collect()
}

fn measure(store: &Store<'_>, cache_mb: u32, pace: &Pace) -> anyhow::Result<Point> {
    store.copy()?.run(&["--cache-mb".to_owned(), cache_mb.to_string()], |server| {
        let start = server.start()?;
        server.create(pace.warm_up_s)?;
        let creates =
            (0..WINDOWS).map(|_| server.create(pace.window_s)).collect::<anyhow::Result<_>>()?;
        let reads = server.read(pace.read_s)?;
        Ok(Point { cache_mb, start, creates, reads, memory: server.memory()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::wrk::tests::outcome;

    #[test]
    fn the_creates_of_a_point_are_those_of_all_windows_over_all_their_time() {
        let memory = Memory { resident_bytes: 1, peak_bytes: 1 };
        let point = Point {
            cache_mb: 64,
            start: Start { plants: 1, ready_s: 1.0, memory },
            creates: vec![outcome(10), Outcome { duration_us: 3_000_000, ..outcome(70) }],
            reads: outcome(1),
            memory,
        };
        assert_eq!(point.creates_per_s(), 20.0);
    }
}
