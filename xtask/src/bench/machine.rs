//! The machine that a bench ran on.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::thread;

use anyhow::Context as _;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Machine {
    cores: usize,
    cpu_model: String,
    kernel: String,
}

impl Machine {
    /// The machine that this runs on.
    pub(super) fn this() -> anyhow::Result<Self> {
        let cores = thread::available_parallelism().context("cannot count the cores")?;
        let cpu_info = read("/proc/cpuinfo")?;
        Ok(Self {
            cores: cores.get(),
            cpu_model: cpu_model(&cpu_info).unwrap_or("unknown").to_owned(),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        })
    }
}

impl Display for Machine {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { cores, cpu_model, kernel } = self;
        write!(formatter, "{cores} cores of {cpu_model}, Linux {kernel}")
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path)
        .with_context(|| format!("cannot read {path}; the benches run on Linux only"))
}

/// The first model in `/proc/cpuinfo`, which some architectures do not name.
fn cpu_model(cpu_info: &str) -> Option<&str> {
    cpu_info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_the_value_of_the_first_model_name() {
        let cpu_info =
            "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Some CPU @ 2 GHz\nflags\t: fpu\n";
        assert_eq!(cpu_model(cpu_info), Some("Some CPU @ 2 GHz"));
        assert_eq!(cpu_model("processor\t: 0\n"), None);
    }
}
