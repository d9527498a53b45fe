//! How large the bench of the size is.

use serde::Serialize;

use crate::usage::UsageError;

/// How many plants a store has that counts as small.
pub(super) const SMALL_PLANTS: u64 = 100_000;
/// How many one has that counts as large, unless something else is asked for.
const LARGE_PLANTS: u64 = 10_000_000;

/// What the command line can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Options {
    pub(super) plants: u64,
    pub(super) pace: Pace,
}

/// How long things take, and how often they are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Pace {
    /// A window of creates while the large store grows, and at each size of the cache.
    pub(super) window_s: u32,
    /// A window of creates at a certain size of the store.
    pub(super) rate_s: u32,
    pub(super) read_s: u32,
    /// Creates before the windows at each size of the cache.
    pub(super) warm_up_s: u32,
    /// How often what takes a start, or a store of its own, is done.
    pub(super) rounds: u32,
}

const FULL_PACE: Pace = Pace { window_s: 10, rate_s: 5, read_s: 5, warm_up_s: 5, rounds: 3 };
const QUICK_PACE: Pace = Pace { window_s: 1, rate_s: 1, read_s: 1, warm_up_s: 1, rounds: 1 };

impl Options {
    /// Whether this is the bench whose values the documents show.
    pub(super) fn is_documented(&self) -> bool {
        self.plants == LARGE_PLANTS && self.pace == FULL_PACE
    }
}

/// Reads `--plants` and `--quick`.
pub(super) fn parse(arguments: &[String], usage: &'static str) -> Result<Options, UsageError> {
    let mut options = Options { plants: LARGE_PLANTS, pace: FULL_PACE };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--quick" => options.pace = QUICK_PACE,
            "--plants" => {
                let value = arguments
                    .next()
                    .ok_or_else(|| UsageError::new("--plants needs a value", usage))?;
                let is_larger = |plants: &u64| *plants > SMALL_PLANTS;
                options.plants = value.parse().ok().filter(is_larger).ok_or_else(|| {
                    UsageError::new(
                        format!(
                            "--plants needs a whole number above {SMALL_PLANTS}, not `{value}`"
                        ),
                        usage,
                    )
                })?;
            }
            unknown => {
                return Err(UsageError::new(format!("there is no option `{unknown}`"), usage));
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::options::tests::words;

    fn parsed(line: &str) -> Result<Options, UsageError> {
        parse(&words(line), "usage")
    }

    #[test]
    fn an_empty_line_means_ten_million_plants_for_the_documents() {
        let options = parsed("").unwrap();
        assert_eq!(options.plants, 10_000_000);
        assert!(options.is_documented());
    }

    #[test]
    fn what_is_smaller_or_quicker_is_not_for_the_documents() {
        for line in ["--plants 200000", "--quick", "--quick --plants 200000"] {
            assert!(!parsed(line).unwrap().is_documented(), "{line}");
        }
        assert_eq!(parsed("--plants 200000").unwrap().plants, 200_000);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--plant 1", "--plants", "--plants 100000", "--plants many", "--quick 1", "5"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
