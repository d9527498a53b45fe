//! A load that wrk puts on one program.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::contender::Contender;
use super::options::IdOrder;
use super::plants::scattered;
use super::program::Program;
use super::wrk::COMMON_SCRIPT;
use super::{probe, store, wrk};

/// All programs run for the bench only, on addresses that nobody else can reach.
pub(super) const TOKEN: &str = "token-of-the-bench";
pub(super) const WARM_UP_S: u32 = 1;
/// How many plants each request for a list asks for.
pub(super) const LIST_LIMIT: usize = 100;

// Ids never come twice: the script maps counters to ids one to one, and zero to zero.
/// What the probe creates.
const PROBE_PLANT: &str = r#"{"id":0,"name":"Eastern white pine 0","tag":"Pinaceae"}"#;
/// Above the numbers of the plants in a store, and below those of the measurement, so that ascending ids ascend
/// all the way.
pub(super) const WARM_UP_FIRST_COUNTER: u64 = 100_000_000;
pub(super) const MEASURE_FIRST_COUNTER: u64 = 1_000_000_000;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Create,
    Read,
    List,
    /// Nine reads for each create.
    Mix,
}

impl Script {
    fn text(self) -> String {
        let requests = match self {
            Self::Create => include_str!("scripts/create.lua"),
            Self::Read => include_str!("scripts/read.lua"),
            Self::List => include_str!("scripts/list.lua"),
            Self::Mix => include_str!("scripts/mix.lua"),
        };
        [COMMON_SCRIPT, include_str!("scripts/load.lua"), requests].concat()
    }
}

/// How a program is put under load.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) script: Script,
    pub(super) connections: u32,
    /// The ids of the plants that are created.
    pub(super) ids: IdOrder,
    pub(super) measure_s: u32,
    /// What is there before; all but creates ask for it.
    pub(super) store: Option<Store<'a>>,
}

/// Plants with scattered ids, of the numbers from 1 on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Store<'a> {
    pub(super) plants: u64,
    /// The folder with the data folder in it, for a program that has one.
    pub(super) folder: Option<&'a Path>,
}

/// Starts a program in `folder`, which is new, and puts it under load, first for the warm-up.
pub(super) fn measure(
    contender: &Contender,
    folder: &Path,
    load: &Load<'_>,
) -> anyhow::Result<wrk::Outcome> {
    if let Some(filled) = load.store.and_then(|store| store.folder) {
        store::copy(filled, folder)?;
    }
    Program::start(contender, folder, TOKEN)?
        .run(|program| measure_running(&[program.address()], folder, load))
}

/// Puts programs that do the same and run under load, first for the warm-up. The script of the load is written into
/// `folder`.
pub(super) fn measure_running(
    addresses: &[SocketAddr],
    folder: &Path,
    load: &Load<'_>,
) -> anyhow::Result<wrk::Outcome> {
    let script = warm_up(addresses, folder, load)?;
    run_wrk(addresses, &script, MEASURE_FIRST_COUNTER, load.measure_s, load)
}

/// Looks whether one of the programs answers as it should, and puts all under load for a moment. Returns the script of
/// the load, which it writes into `folder`.
pub(super) fn warm_up(
    addresses: &[SocketAddr],
    folder: &Path,
    load: &Load<'_>,
) -> anyhow::Result<PathBuf> {
    let address = *addresses.first().context("there is no program")?;
    // A load that only reads leaves a store as it was, for the next one.
    if matches!(load.script, Script::Create | Script::Mix) {
        probe::create(address, TOKEN, PROBE_PLANT)?;
    }
    if load.store.is_some() {
        probe::get(address, TOKEN, &format!("/plants/{}", scattered(1)))?;
        let list = probe::get(address, TOKEN, &format!("/plants?limit={LIST_LIMIT}&after=0"))?;
        let listed = list.matches("\"id\":").count();
        ensure!(listed == LIST_LIMIT, "a list of {LIST_LIMIT} has {listed} plants:\n{list}");
    }
    let script = folder.join("load.lua");
    fs::write(&script, load.script.text())
        .with_context(|| format!("cannot write {}", script.display()))?;
    run_wrk(addresses, &script, WARM_UP_FIRST_COUNTER, WARM_UP_S, load)
        .context("the warm-up failed")?;
    Ok(script)
}

fn run_wrk(
    addresses: &[SocketAddr],
    script: &Path,
    first_counter: u64,
    duration_s: u32,
    load: &Load<'_>,
) -> anyhow::Result<wrk::Outcome> {
    wrk::run(&wrk::Load {
        addresses,
        token: TOKEN,
        script,
        script_arguments: &script_arguments(first_counter, load),
        connections: load.connections,
        duration_s,
    })
}

fn script_arguments(first_counter: u64, load: &Load<'_>) -> [String; 3] {
    let stored = load.store.map_or(0, |store| store.plants);
    [first_counter.to_string(), load.ids.name().to_owned(), stored.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_the_common_one_with_requests_behind_it() {
        for script in [Script::Create, Script::Read, Script::List, Script::Mix] {
            let text = script.text();
            let has_request = |text: &str| {
                text.contains("\nrequest = create_request\n")
                    || text.contains("\nfunction request()\n")
            };
            assert!(text.starts_with(COMMON_SCRIPT), "{script:?}");
            assert!(has_request(&text), "{script:?}");
        }
        assert!(include_str!("scripts/list.lua").contains(&format!("?limit={LIST_LIMIT}&")));
    }

    #[test]
    fn a_script_is_told_how_many_plants_there_are() {
        let store = Some(Store { plants: 7, folder: None });
        let (connections, measure_s) = (64, 1);
        let load =
            Load { script: Script::Mix, connections, ids: IdOrder::Random, measure_s, store };
        assert_eq!(script_arguments(5, &load), ["5", "random", "7"]);
    }
}
