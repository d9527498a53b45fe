//! Measurements in rounds, and their evaluation: medians, ratios within a round, and targets.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::options::Options;

/// What one program did in one measurement.
#[derive(Debug, Clone, Default)]
pub(super) struct Measurement {
    /// Requests, plants, starts or bytes.
    pub(super) count: u64,
    pub(super) seconds: f64,
    /// The 50th, 99th and 99.9th percentile and the maximum, if latencies were measured.
    pub(super) latency_ms: Option<[f64; 4]>,
    /// The peak memory of the process, if it was measured.
    pub(super) memory_mb: Option<f64>,
}

impl Measurement {
    pub(super) fn of(mut latencies: Vec<Duration>, duration: Duration) -> Self {
        latencies.sort_unstable();
        // The least latency that this share of all latencies does not exceed.
        let percentile = |permille: usize| {
            let rank = (latencies.len() * permille).div_ceil(1_000);
            latencies[rank - 1].as_secs_f64() * 1_000.0
        };
        let latency_ms = (!latencies.is_empty()).then(|| [500, 990, 999, 1_000].map(percentile));
        let (count, seconds) = (latencies.len() as u64, duration.as_secs_f64());
        Self { count, seconds, latency_ms, memory_mb: None }
    }

    pub(super) fn per_s(&self) -> f64 {
        self.count as f64 / self.seconds
    }
}

type Measure<'a> = dyn Fn(&Path) -> anyhow::Result<Measurement> + 'a;

/// A program at a workload.
pub(super) struct Entry<'a> {
    workload: &'static str,
    program: &'static str,
    /// Runs the workload in an empty folder.
    measure: Box<Measure<'a>>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(
        workload: &'static str,
        program: &'static str,
        measure: impl Fn(&Path) -> anyhow::Result<Measurement> + 'a,
    ) -> Self {
        Self { workload, program, measure: Box::new(measure) }
    }
}

/// The measurements of a program at a workload, one of each round.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) workload: &'static str,
    pub(super) program: &'static str,
    measurements: Vec<Measurement>,
}

#[derive(Debug, Default)]
pub(super) struct Results(pub(super) Vec<Series>);

impl Results {
    /// Carries out all entries in each round. Entries of one workload run one right after the other, because they are
    /// compared. Each round begins with another of them, because the first meets a cooler machine and an emptier disk
    /// queue.
    pub(super) fn measure(
        &mut self,
        options: &Options,
        entries: &[Entry<'_>],
    ) -> anyhow::Result<()> {
        for round in 0..options.rounds {
            let of_workload = entries.chunk_by(|one, next| one.workload == next.workload);
            for entry in of_workload.flat_map(|entries| rotated(entries, round)) {
                let Entry { workload, program, measure } = entry;
                if !options.wants(workload) {
                    continue;
                }
                let what = format!("round {}: {workload}: {program}", round + 1);
                let measurement = measure(options.temporary()?.path()).context(what.clone())?;
                println!("{what}: {:.0}/s, {measurement:.3?}", measurement.per_s());
                self.add(workload, program, measurement);
            }
        }
        Ok(())
    }

    pub(super) fn add(
        &mut self,
        workload: &'static str,
        program: &'static str,
        measurement: Measurement,
    ) {
        let series = |one: &&mut Series| (one.workload, one.program) == (workload, program);
        match self.0.iter_mut().find(series) {
            Some(series) => series.measurements.push(measurement),
            None => self.0.push(Series { workload, program, measurements: vec![measurement] }),
        }
    }

    /// The values of all rounds, without those that were not measured.
    pub(super) fn values(
        &self,
        workload: &str,
        program: &str,
        value: impl Fn(&Measurement) -> Option<f64>,
    ) -> Vec<f64> {
        let series = |one: &&Series| (one.workload, one.program) == (workload, program);
        let measured = self.0.iter().filter(series);
        measured.flat_map(|series| &series.measurements).filter_map(value).collect()
    }

    pub(super) fn rates(&self, workload: &str, program: &str) -> Vec<f64> {
        self.values(workload, program, |measurement| Some(measurement.per_s()))
    }

    /// The latencies of all rounds, by the index in [`Measurement::latency_ms`].
    pub(super) fn latencies(&self, workload: &str, program: &str, percentile: usize) -> Vec<f64> {
        self.values(workload, program, |measurement| Some(measurement.latency_ms?[percentile]))
    }

    /// The rates of a program divided by those of another in the same round.
    pub(super) fn ratios(&self, workload: &str, program: &str, other: &str) -> Vec<f64> {
        quotients(self.rates(workload, program), self.rates(workload, other))
    }
}

pub(super) fn quotients(values: Vec<f64>, divisors: Vec<f64>) -> Vec<f64> {
    values.into_iter().zip(divisors).map(|(value, divisor)| value / divisor).collect()
}

fn rotated<T>(entries: &[T], round: usize) -> impl Iterator<Item = &T> {
    entries.iter().cycle().skip(round % entries.len()).take(entries.len())
}

/// The median, the least and the greatest of values, if there are any.
pub(super) fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    // Both are the same for an odd number of values.
    let (lower, upper) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    Some([f64::midpoint(lower, upper), min, max])
}

/// The goal for a median, and an optional more ambitious aim.
#[derive(Clone, Copy)]
pub(super) enum Target {
    AtLeast(f64, Option<f64>),
    AtMost(f64, Option<f64>),
}

impl Target {
    pub(super) fn verdict(self, value: f64) -> &'static str {
        let (is_met, is_aim_met) = match self {
            Self::AtLeast(goal, aim) => (value >= goal, aim.is_some_and(|aim| value >= aim)),
            Self::AtMost(goal, aim) => (value <= goal, aim.is_some_and(|aim| value <= aim)),
        };
        match (is_met, is_aim_met) {
            (true, true) => "met, and the aim",
            (true, false) => "met",
            (false, _) => "missed",
        }
    }

    /// The goal and the aim, as tables show them.
    pub(super) fn texts(self) -> [String; 2] {
        let (sign, goal, aim) = match self {
            Self::AtLeast(goal, aim) => ('≥', goal, aim),
            Self::AtMost(goal, aim) => ('≤', goal, aim),
        };
        [Some(goal), aim].map(|it| it.map_or_else(String::new, |it| format!("{sign} {it}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_latencies() {
        let of = |latencies| Measurement::of(latencies, Duration::from_secs(1)).latency_ms;
        let latencies = (1..=1_000).rev().map(Duration::from_millis).collect();
        assert_eq!(of(latencies), Some([500.0, 990.0, 999.0, 1_000.0]));
        assert_eq!(of(vec![Duration::from_millis(7)]), Some([7.0; 4]));
        assert_eq!(of(Vec::new()), None);
    }

    #[test]
    fn the_median_of_an_even_number_of_values_lies_between_the_two_in_the_middle() {
        assert_eq!(spread(vec![9.0, 1.0, 4.0]), Some([4.0, 1.0, 9.0]));
        assert_eq!(spread(vec![8.0, 1.0, 2.0, 4.0]), Some([3.0, 1.0, 8.0]));
        assert_eq!(spread(Vec::new()), None);
    }

    #[test]
    fn a_ratio_is_the_median_of_those_within_a_round_and_not_the_ratio_of_the_medians() {
        let mut results = Results::default();
        for (rose, fern) in [(90, 100), (100, 200), (160, 400)] {
            for (program, count) in [("rose", rose), ("fern", fern)] {
                let measurement = Measurement { count, seconds: 1.0, ..Measurement::default() };
                results.add("read", program, measurement);
            }
        }
        assert_eq!(spread(results.ratios("read", "rose", "fern")), Some([0.5, 0.4, 0.9]));
        assert!(results.ratios("list", "rose", "fern").is_empty());
    }

    #[test]
    fn each_round_begins_with_another_program_and_a_target_is_met_up_to_its_value() {
        let order = |round| rotated(&["a", "b", "c"], round).copied().collect::<String>();
        assert_eq!([0, 1, 2, 3].map(order), ["abc", "bca", "cab", "abc"]);
        let verdicts = |target: Target| [0.4, 0.5, 0.6].map(|value| target.verdict(value));
        assert_eq!(
            verdicts(Target::AtLeast(0.5, Some(0.6))),
            ["missed", "met", "met, and the aim"]
        );
        assert_eq!(verdicts(Target::AtMost(0.5, None)), ["met", "met", "missed"]);
    }
}
