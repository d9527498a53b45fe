//! How much memory a process takes.

use std::fs;

use anyhow::Context as _;
use serde::Serialize;

/// In bytes.
pub(super) const MB: f64 = 1_000_000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Memory {
    /// What it has in memory now (`VmRSS`).
    pub(super) resident_bytes: u64,
    /// The most that it ever had (`VmHWM`).
    pub(super) peak_bytes: u64,
}

impl Memory {
    /// The memory of a running process.
    pub(super) fn of(process_id: u32) -> anyhow::Result<Self> {
        let path = format!("/proc/{process_id}/status");
        let status = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {path}; the benches run on Linux only"))?;
        parse(&status).with_context(|| format!("{path} has no VmRSS and VmHWM in kB:\n{status}"))
    }
}

fn parse(status: &str) -> Option<Memory> {
    let bytes = |name| {
        let (_, value) = status
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| *found == name)?;
        // The kernel says kB and means 1,024 bytes.
        Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1_024)
    };
    Some(Memory { resident_bytes: bytes("VmRSS")?, peak_bytes: bytes("VmHWM")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_is_in_units_of_1024_bytes() {
        let status = "Name:\tplantd\nVmPeak:\t  900 kB\nVmHWM:\t     20 kB\nVmRSS:\t     10 kB\n";
        let memory = Memory { resident_bytes: 10_240, peak_bytes: 20_480 };
        assert_eq!(parse(status), Some(memory));
    }

    #[test]
    fn a_process_that_has_ended_has_no_memory() {
        assert_eq!(parse("Name:\tplantd\nState:\tZ (zombie)\n"), None);
    }
}
