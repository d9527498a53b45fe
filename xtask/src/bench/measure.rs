//! Measurements in rounds, and what they say: medians, ratios within a round, and claims.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::options::Options;

/// One measurement of one program.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    /// Requests or plants.
    pub(super) count: u64,
    pub(super) seconds: f64,
    pub(super) latency: Option<Latency>,
}

impl Figures {
    pub(super) fn per_s(&self) -> f64 {
        self.count as f64 / self.seconds
    }
}

/// Percentiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

impl Latency {
    /// The least latencies that these shares of all latencies do not exceed, if there are any.
    pub(super) fn of(mut latencies: Vec<Duration>) -> Option<Self> {
        latencies.sort_unstable();
        let percentile = |permille: usize| {
            let rank = (latencies.len() * permille).div_ceil(1_000);
            Some(latencies.get(rank.checked_sub(1)?)?.as_secs_f64() * 1_000.0)
        };
        let [p50, p99, p999, max] = [500, 990, 999, 1_000].map(percentile);
        Some(Self { p50: p50?, p99: p99?, p999: p999?, max: max? })
    }
}

/// The middle and the ends of a handful of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// The spread of values, if there are any.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        // Both are the same if the number of values is odd.
        let (lower, upper) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median: f64::midpoint(lower, upper), min, max })
    }

    /// The spread of a value over all rounds that have it.
    pub(super) fn over(rounds: &[Round], value: impl Fn(&Round) -> Option<f64>) -> Option<Self> {
        Self::of(rounds.iter().filter_map(value))
    }
}

/// A work, a program and its measurement, which works in the folder that it gets.
pub(super) type Entry<'a> =
    (&'static str, &'static str, Box<dyn Fn(&Path) -> anyhow::Result<Figures> + 'a>);

/// The figures of one round, with their works and programs, in the order of the measurements.
#[derive(Debug, Default)]
pub(super) struct Round(pub(super) Vec<(&'static str, &'static str, Figures)>);

impl Round {
    pub(super) fn figures(&self, work: &str, program: &str) -> Option<&Figures> {
        let mut measurements = self.0.iter();
        let found = measurements.find(|(one, by, _)| (*one, *by) == (work, program))?;
        Some(&found.2)
    }

    pub(super) fn latency(&self, work: &str, program: &str) -> Option<Latency> {
        self.figures(work, program)?.latency
    }

    /// The rate of a program divided by that of another.
    pub(super) fn ratio(&self, work: &str, program: &str, other: &str) -> Option<f64> {
        Some(self.figures(work, program)?.per_s() / self.figures(work, other)?.per_s())
    }
}

/// Adds the measurements of all turns to each round. The entries of a turn are compared, so they run one right after
/// the other; each round begins with another one, because the first meets a cooler machine and an emptier disk queue.
pub(super) fn measure(
    options: &Options,
    rounds: &mut Vec<Round>,
    turns: &[Vec<Entry<'_>>],
) -> anyhow::Result<()> {
    rounds.resize_with(options.rounds, Round::default);
    for (index, round) in rounds.iter_mut().enumerate() {
        for (work, program, measure) in turns.iter().flat_map(|turn| rotated(turn, index)) {
            if !options.wants(work) {
                continue;
            }
            let what = format!("round {}: {work}: {program}", index + 1);
            let figures = measure(options.temporary()?.path()).with_context(|| what.clone())?;
            println!("{what}: {:.0}/s, {:?}", figures.per_s(), figures.latency);
            round.0.push((work, program, figures));
        }
    }
    Ok(())
}

fn rotated<T>(turn: &[T], round: usize) -> impl Iterator<Item = &T> {
    turn.iter().cycle().skip(round % turn.len().max(1)).take(turn.len())
}

/// What is to be reached, the target for the median, and the value of a round that has all that the claim needs.
pub(super) type Claim = (&'static str, Target, fn(&Round) -> Option<f64>);

#[derive(Clone, Copy)]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    pub(super) fn verdict(self, value: f64) -> &'static str {
        let is_met = match self {
            Self::AtLeast(target) => value >= target,
            Self::AtMost(target) => value <= target,
        };
        if is_met { "met" } else { "missed" }
    }
}

impl Display for Target {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(target) => write!(formatter, "≥ {target}"),
            Self::AtMost(target) => write!(formatter, "≤ {target}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_latencies() {
        let latencies = (1..=1_000).rev().map(Duration::from_millis).collect();
        let expected = Latency { p50: 500.0, p99: 990.0, p999: 999.0, max: 1_000.0 };
        assert_eq!(Latency::of(latencies), Some(expected));
        assert_eq!(Latency::of(vec![Duration::from_millis(7)]).unwrap().p50, 7.0);
        assert_eq!(Latency::of(Vec::new()), None);
    }

    #[test]
    fn the_median_of_an_even_number_of_values_lies_between_the_two_in_the_middle() {
        let spread = |median, min, max| Some(Spread { median, min, max });
        assert_eq!(Spread::of([9.0, 1.0, 4.0]), spread(4.0, 1.0, 9.0));
        assert_eq!(Spread::of([8.0, 1.0, 2.0, 4.0]), spread(3.0, 1.0, 8.0));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn a_ratio_is_the_median_of_those_within_a_round_and_not_the_ratio_of_the_medians() {
        let figures = |count| Figures { count, seconds: 1.0, latency: None };
        let rounds = [(90, 100), (100, 200), (160, 400)].map(|(rose, fern)| {
            Round(vec![("read", "rose", figures(rose)), ("read", "fern", figures(fern))])
        });
        let ratio = Spread::over(&rounds, |round| round.ratio("read", "rose", "fern"));
        assert_eq!(ratio, Some(Spread { median: 0.5, min: 0.4, max: 0.9 }));
        assert_eq!(Spread::over(&rounds, |round| round.ratio("list", "rose", "fern")), None);
    }

    #[test]
    fn each_round_begins_with_another_program_and_a_target_is_met_up_to_its_value() {
        let order = |round| rotated(&["a", "b", "c"], round).copied().collect::<String>();
        assert_eq!([0, 1, 2, 3].map(order), ["abc", "bca", "cab", "abc"]);
        assert_eq!(Target::AtLeast(0.5).verdict(0.5), "met");
        assert_eq!(Target::AtMost(0.5).verdict(0.51), "missed");
    }
}
