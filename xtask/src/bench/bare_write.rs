//! What one write that is on the disk takes, without any program around it.
//!
//! It is what plantd's journal does for a create that comes alone: one write into a file that has its length
//! already, and one `fdatasync`. (`sync_file_range` before that makes it longer by a tenth at most. fio does
//! not do both after one write, and rustix has no such call.)

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

/// A record of one plant in the journal, which begins at a multiple of 8.
const RECORD: [u8; 120] = [b'p'; 120];
const FILE_BYTES: usize = 8 * 1024 * 1024;

/// What came out.
#[derive(Debug, Clone, Serialize)]
pub(super) struct BareWrites {
    pub(super) writes: usize,
    pub(super) duration_us: f64,
    pub(super) latency_p50_us: f64,
    pub(super) latency_p99_us: f64,
}

/// Writes records one after the other into a new file in `folder`, first for `warm_up` without a look at it.
pub(super) fn measure(
    folder: &Path,
    warm_up: Duration,
    duration: Duration,
) -> anyhow::Result<BareWrites> {
    let path = folder.join("bare-writes");
    let context = || format!("cannot write {}", path.display());
    let file = File::create(&path).with_context(context)?;
    file.write_all_at(&vec![0; FILE_BYTES], 0).with_context(context)?;
    file.sync_all().with_context(context)?;
    let mut position = 0;
    let mut write_for = |duration: Duration| -> anyhow::Result<BareWrites> {
        let mut latencies = Vec::new();
        let start = Instant::now();
        while start.elapsed() < duration {
            let start = Instant::now();
            file.write_all_at(&RECORD, u64::try_from(position)?).with_context(context)?;
            file.sync_data().with_context(context)?;
            latencies.push(start.elapsed());
            position += RECORD.len();
            if position + RECORD.len() > FILE_BYTES {
                position = 0;
            }
        }
        summary(latencies, start.elapsed()).context("no time to write anything")
    };
    write_for(warm_up)?;
    write_for(duration)
}

fn summary(mut latencies: Vec<Duration>, duration: Duration) -> Option<BareWrites> {
    latencies.sort();
    let percentile = |hundredths: usize| {
        let latency = latencies.get(latencies.len() * hundredths / 100)?;
        Some(microseconds(*latency))
    };
    Some(BareWrites {
        writes: latencies.len(),
        duration_us: microseconds(duration),
        latency_p50_us: percentile(50)?,
        latency_p99_us: percentile(99)?,
    })
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_latencies() {
        let latencies = (1..=100).rev().map(Duration::from_micros).collect();
        let summary = summary(latencies, Duration::from_millis(6)).unwrap();
        assert_eq!(summary.writes, 100);
        assert!((summary.duration_us - 6_000.0).abs() < 0.001);
        assert!((summary.latency_p50_us - 51.0).abs() < 0.001);
        assert!((summary.latency_p99_us - 100.0).abs() < 0.001);
    }

    #[test]
    fn no_latencies_have_no_summary() {
        assert!(summary(Vec::new(), Duration::from_millis(1)).is_none());
    }
}
