//! A data folder that the bench fills, and the servers that run on it one after the other.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use tempfile::TempDir;

use super::counters::{Counters, Range};
use super::disk;
use super::memory::Memory;
use crate::bench::bench_folder::BenchFolder;
use crate::bench::contender::Contender;
use crate::bench::load::TOKEN;
use crate::bench::measurement::CONNECTIONS;
use crate::bench::program::{DATA_FOLDER, Program};
use crate::bench::wrk::{self, COMMON_SCRIPT, Load, Outcome, Running};
use crate::bench::{interrupt, probe, store};

const CREATE_SCRIPT: &str = include_str!("create.lua");
const READ_SCRIPT: &str = include_str!("read.lua");
/// A window of creates on the way to a size: short, so that the size is not passed by much.
const FILL_S: u32 = 1;
/// When a load is killed: long enough after its start to be in the middle of it.
const KILL_AFTER: Duration = Duration::from_millis(1_500);
/// Longer than that, whatever the machine is busy with.
const KILLED_LOAD_S: u32 = 60;
/// How long a start may take. A target says how long it should.
const READY_TIMEOUT: Duration = Duration::from_secs(300);

/// Where things are.
#[derive(Debug)]
pub(super) struct Workbench {
    plantd: Contender,
    folder: TempDir,
}

impl Workbench {
    /// A folder in `bench_folder` for scripts and stores, which is removed when this is dropped.
    pub(super) fn new(plantd: Contender, bench_folder: &BenchFolder) -> anyhow::Result<Self> {
        let place = Self { plantd, folder: bench_folder.temporary()? };
        for (path, text) in
            [(place.create_script(), CREATE_SCRIPT), (place.read_script(), READ_SCRIPT)]
        {
            fs::write(&path, [COMMON_SCRIPT, text].concat())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(place)
    }

    fn create_script(&self) -> PathBuf {
        self.folder.path().join("create.lua")
    }

    fn read_script(&self) -> PathBuf {
        self.folder.path().join("read.lua")
    }
}

/// A start, and what it left.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Start {
    pub(super) plants: u64,
    /// From the start of the process to the line that says it is ready.
    pub(super) ready_s: f64,
    /// At that line.
    pub(super) memory: Memory,
}

/// A folder of plants; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Store<'a> {
    place: &'a Workbench,
    folder: TempDir,
    counters: Counters,
}

impl<'a> Store<'a> {
    /// A store without plants.
    pub(super) fn new(place: &'a Workbench) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir_in(place.folder.path()).with_context(|| {
            format!("cannot make a folder in {}", place.folder.path().display())
        })?;
        Ok(Self { place, folder, counters: Counters::new() })
    }

    /// A store with the same plants, of one that no server has open.
    pub(super) fn copy(&self) -> anyhow::Result<Self> {
        interrupt::check()?;
        let copy = Self { counters: self.counters.clone(), ..Self::new(self.place)? };
        store::copy(self.folder.path(), copy.folder.path())?;
        Ok(copy)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join(DATA_FOLDER)
    }

    /// Starts a server on it, runs `work` with it and stops it as a service manager does.
    pub(super) fn run<T>(
        &mut self,
        arguments: &[String],
        work: impl FnOnce(&mut Server<'_, '_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let program = self.start(arguments)?;
        program.run(|program| work(&mut Server { store: self, program }))
    }

    /// Starts a server on it, and kills it while it is under a load of creates. Returns how many plants there
    /// were before that.
    pub(super) fn kill_under_load(&mut self) -> anyhow::Result<u64> {
        let (plants, load) = self.start(&[])?.run_and_kill(|program| {
            let mut server = Server { store: self, program };
            let plants = server.plants()?;
            let mut load = server.start_load()?;
            thread::sleep(KILL_AFTER);
            load.check()?;
            Ok((plants, load))
        })?;
        drop(load);
        Ok(plants)
    }

    fn start(&self, arguments: &[String]) -> anyhow::Result<Program> {
        interrupt::check()?;
        let Self { place, folder, .. } = self;
        let plantd = Contender { arguments: arguments.to_vec(), ..place.plantd.clone() };
        Program::start_within(READY_TIMEOUT, &plantd, folder.path(), TOKEN)
    }
}

/// A running server on a store.
#[derive(Debug)]
pub(super) struct Server<'server, 'place> {
    store: &'server mut Store<'place>,
    program: &'server Program,
}

impl Server<'_, '_> {
    /// How it started, if that is asked before anything else.
    pub(super) fn start(&self) -> anyhow::Result<Start> {
        let memory = self.memory()?;
        let ready_s = self.program.ready_after().as_secs_f64();
        Ok(Start { plants: self.plants()?, ready_s, memory })
    }

    pub(super) fn plants(&self) -> anyhow::Result<u64> {
        probe::count(self.program.address(), TOKEN)
    }

    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.program.process_id())
    }

    pub(super) fn disk_bytes(&self) -> anyhow::Result<u64> {
        disk::allocated_bytes(&self.store.data())
    }

    /// Creates plants until there are so many, or some more.
    pub(super) fn fill(&mut self, plants: u64) -> anyhow::Result<()> {
        while self.plants()? < plants {
            self.create(FILL_S)?;
        }
        Ok(())
    }

    /// Creates plants that were never created before.
    pub(super) fn create(&mut self, duration_s: u32) -> anyhow::Result<Outcome> {
        let outcome = self
            .load(&self.store.place.create_script(), &self.create_arguments(), duration_s)
            .context("the creates failed")?;
        let path = self.counters_path();
        let ends =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        self.store.counters.take_ends(&ends)?;
        Ok(outcome)
    }

    /// Begins to create plants, for longer than anybody should wait.
    fn start_load(&mut self) -> anyhow::Result<Running> {
        let running = wrk::start(&Load {
            addresses: &[self.program.address()],
            token: TOKEN,
            script: &self.store.place.create_script(),
            script_arguments: &self.create_arguments(),
            connections: CONNECTIONS,
            duration_s: KILLED_LOAD_S,
        })?;
        self.store.counters.skip();
        Ok(running)
    }

    /// Reads plants by their ids, each as likely as any other.
    pub(super) fn read(&self, duration_s: u32) -> anyhow::Result<Outcome> {
        let created = self.store.counters.created();
        if created.is_empty() {
            bail!("no plants were created that could be read: measure for longer");
        }
        let ranges = created.iter().map(Range::to_string);
        let arguments: Vec<String> = iter::once("plant".to_owned()).chain(ranges).collect();
        self.load(&self.store.place.read_script(), &arguments, duration_s)
            .context("the reads failed")
    }

    /// Lists pages of 100 plants that begin anywhere.
    pub(super) fn list(&self, duration_s: u32) -> anyhow::Result<Outcome> {
        self.load(&self.store.place.read_script(), &["page".to_owned()], duration_s)
            .context("the lists failed")
    }

    fn load(
        &self,
        script: &Path,
        script_arguments: &[String],
        duration_s: u32,
    ) -> anyhow::Result<Outcome> {
        interrupt::check()?;
        wrk::run(&Load {
            addresses: &[self.program.address()],
            token: TOKEN,
            script,
            script_arguments,
            connections: CONNECTIONS,
            duration_s,
        })
    }

    fn create_arguments(&self) -> [String; 2] {
        [self.store.counters.next().to_string(), self.counters_path().display().to_string()]
    }

    /// Where the script writes the counters at which its threads ended.
    fn counters_path(&self) -> PathBuf {
        self.store.folder.path().join("counters")
    }
}
