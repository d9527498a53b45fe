//! Servers beside each other on the same tables.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;

use crate::bench::contender::Contender;
use crate::bench::load::TOKEN;
use crate::bench::program::Program;

/// Starts so many, each in a new folder within `folder`, runs `work` with their addresses and stops them.
pub(super) fn run<T>(
    contender: &Contender,
    count: usize,
    folder: &Path,
    work: impl FnOnce(&[SocketAddr]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let start = |number| {
        let own = folder.join(format!("replica-{number}"));
        fs::create_dir(&own).with_context(|| format!("cannot make {}", own.display()))?;
        Program::start(contender, &own, TOKEN)
    };
    let programs = (1..=count).map(start).collect::<anyhow::Result<Vec<_>>>()?;
    let addresses: Vec<SocketAddr> = programs.iter().map(Program::address).collect();
    // Each runs what the ones before it run, so that an error comes with the end of every log.
    let run: Box<dyn FnOnce() -> anyhow::Result<T> + '_> = Box::new(|| work(&addresses));
    let all = programs.into_iter().fold(run, |run, program| Box::new(|| program.run(|_| run())));
    all()
}
