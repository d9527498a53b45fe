//! What a store costs at a size: room on the disk, memory, starts and reads.

use anyhow::ensure;
use serde::Serialize;

use super::disk;
use super::memory::Memory;
use super::options::{Pace, SMALL_PLANTS};
use super::store::{Server, Start, Store, Workbench};
use crate::bench::spread::Spread;
use crate::bench::wrk::Outcome;

/// What was measured at one size.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Costs {
    pub(super) loaded: Vec<Loaded>,
    pub(super) after_stop: Vec<Start>,
    /// After a clean stop, when the kernel had forgotten the files.
    pub(super) from_disk: Option<Start>,
    /// Why it could not be made to forget them.
    pub(super) from_disk_refused: Option<String>,
    pub(super) after_kill: Vec<Start>,
}

/// A store that was just filled, in the process that filled it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Loaded {
    pub(super) plants: u64,
    pub(super) disk_bytes: u64,
    pub(super) memory: Memory,
    pub(super) read: Outcome,
    pub(super) list: Outcome,
    pub(super) memory_after_reads: Memory,
}

impl Loaded {
    /// Looks at a store, and then reads from it.
    pub(super) fn of(server: &Server<'_, '_>, pace: &Pace) -> anyhow::Result<Self> {
        Ok(Self {
            plants: server.plants()?,
            disk_bytes: server.disk_bytes()?,
            memory: server.memory()?,
            read: server.read(pace.read_s)?,
            list: server.list(pace.read_s)?,
            memory_after_reads: server.memory()?,
        })
    }
}

impl Costs {
    /// Those of small stores, each made anew.
    pub(super) fn of_small(place: &Workbench, pace: &Pace) -> anyhow::Result<Self> {
        let mut costs = Self::default();
        for round in 1..=pace.rounds {
            let mut store = Store::new(place)?;
            costs.loaded.push(store.run(&[], |server| {
                server.fill(SMALL_PLANTS)?;
                Loaded::of(server, pace)
            })?);
            costs.start_after_stop(&mut store)?;
            if round == pace.rounds {
                costs.start_from_disk(&mut store)?;
            }
            costs.start_after_kill(&mut store)?;
        }
        Ok(costs)
    }

    /// Adds starts of one store that was stopped.
    pub(super) fn add_starts(&mut self, store: &mut Store<'_>, rounds: u32) -> anyhow::Result<()> {
        for _ in 0..rounds {
            self.start_after_stop(store)?;
        }
        self.start_from_disk(store)?;
        for _ in 0..rounds {
            self.start_after_kill(store)?;
        }
        Ok(())
    }

    fn start_after_stop(&mut self, store: &mut Store<'_>) -> anyhow::Result<()> {
        self.after_stop.push(start(store)?);
        Ok(())
    }

    fn start_from_disk(&mut self, store: &mut Store<'_>) -> anyhow::Result<()> {
        match disk::drop_caches()? {
            Ok(()) => self.from_disk = Some(start(store)?),
            Err(refusal) => self.from_disk_refused = Some(refusal),
        }
        Ok(())
    }

    fn start_after_kill(&mut self, store: &mut Store<'_>) -> anyhow::Result<()> {
        let plants = store.kill_under_load()?;
        let start = start(store)?;
        ensure!(start.plants > plants, "the load that the kill ended had created nothing");
        self.after_kill.push(start);
        Ok(())
    }

    /// The medians of everything that there is a value of.
    pub(super) fn medians(&self) -> Option<Medians> {
        let loaded = |value: fn(&Loaded) -> f64| median(self.loaded.iter().map(value));
        Some(Medians {
            plants: loaded(|loaded| loaded.plants as f64)?,
            disk_bytes_per_plant: loaded(|loaded| loaded.disk_bytes as f64 / loaded.plants as f64)?,
            resident_after_load_bytes: loaded(|loaded| loaded.memory.resident_bytes as f64)?,
            resident_after_start_bytes: median(
                self.after_stop.iter().map(|start| start.memory.resident_bytes as f64),
            )?,
            ready_after_stop_s: median(self.after_stop.iter().map(|start| start.ready_s))?,
            ready_after_kill_s: median(self.after_kill.iter().map(|start| start.ready_s))?,
            ready_from_disk_s: self.from_disk.as_ref().map(|start| start.ready_s),
            reads_per_s: loaded(|loaded| loaded.read.requests_per_s())?,
            read_p50_us: loaded(|loaded| loaded.read.latency_p50_us as f64)?,
            read_p99_us: loaded(|loaded| loaded.read.latency_p99_us as f64)?,
            lists_per_s: loaded(|loaded| loaded.list.requests_per_s())?,
            list_p50_us: loaded(|loaded| loaded.list.latency_p50_us as f64)?,
            list_p99_us: loaded(|loaded| loaded.list.latency_p99_us as f64)?,
        })
    }

    /// The most memory that any of the processes had.
    pub(super) fn peak_bytes(&self) -> Option<u64> {
        let loaded = self.loaded.iter().map(|loaded| loaded.memory_after_reads);
        let starts = self.after_stop.iter().chain(&self.from_disk).chain(&self.after_kill);
        loaded.chain(starts.map(|start| start.memory)).map(|memory| memory.peak_bytes).max()
    }
}

/// The middle of each cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Medians {
    pub(super) plants: f64,
    pub(super) disk_bytes_per_plant: f64,
    pub(super) resident_after_load_bytes: f64,
    pub(super) resident_after_start_bytes: f64,
    pub(super) ready_after_stop_s: f64,
    pub(super) ready_after_kill_s: f64,
    pub(super) ready_from_disk_s: Option<f64>,
    pub(super) reads_per_s: f64,
    pub(super) read_p50_us: f64,
    pub(super) read_p99_us: f64,
    pub(super) lists_per_s: f64,
    pub(super) list_p50_us: f64,
    pub(super) list_p99_us: f64,
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

fn start(store: &mut Store<'_>) -> anyhow::Result<Start> {
    store.run(&[], |server| server.start())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::wrk::tests::outcome;

    fn memory(bytes: u64) -> Memory {
        Memory { resident_bytes: bytes, peak_bytes: 2 * bytes }
    }

    fn started(ready_s: f64) -> Start {
        Start { plants: 1_000, ready_s, memory: memory(10_000_000) }
    }

    pub(in crate::bench::scale) fn costs(plants: u64, bytes_per_plant: u64, ready_s: f64) -> Costs {
        Costs {
            loaded: vec![Loaded {
                plants,
                disk_bytes: plants * bytes_per_plant,
                memory: memory(100_000_000),
                read: outcome(80_000),
                list: outcome(4_000),
                memory_after_reads: memory(100_000_000),
            }],
            after_stop: [3.0, 1.0, 2.0].map(|factor| started(factor * ready_s)).into(),
            from_disk: None,
            from_disk_refused: Some("permission denied".to_owned()),
            after_kill: vec![started(5.0 * ready_s)],
        }
    }

    #[test]
    fn the_median_of_each_cost_is_taken_by_itself() {
        let medians = costs(1_000, 50, 0.5).medians().unwrap();
        assert_eq!(medians.disk_bytes_per_plant, 50.0);
        assert_eq!(medians.ready_after_stop_s, 1.0);
        assert_eq!(medians.ready_after_kill_s, 2.5);
        assert_eq!(medians.ready_from_disk_s, None);
    }

    #[test]
    fn the_peak_is_that_of_the_process_that_took_most() {
        let mut costs = costs(1_000, 50, 0.5);
        assert_eq!(costs.peak_bytes(), Some(200_000_000));
        costs.after_kill.push(Start { memory: memory(300_000_000), ..started(1.0) });
        assert_eq!(costs.peak_bytes(), Some(600_000_000));
    }

    #[test]
    fn what_was_not_measured_has_no_median() {
        assert_eq!(Costs::default().medians(), None);
    }
}
