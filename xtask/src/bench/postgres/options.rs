//! How much load the benches on PostgreSQL make.

use serde::Serialize;

use crate::bench::options::count;
use crate::usage::UsageError;

/// How many plants are moved unless something else is asked for.
const MOVED_PLANTS: u32 = 1_000_000;

/// What the command line of `bench postgres` can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Options {
    /// How often each program is measured.
    pub(super) rounds: u32,
    /// How long each measurement takes.
    pub(super) measure_s: u32,
    /// How many plants there are that are read and listed.
    pub(super) stored_plants: u64,
    is_quick: bool,
}

impl Options {
    /// Whether its figures are those that stand in the documents.
    pub(super) fn is_documented(&self) -> bool {
        !self.is_quick
    }
}

/// Reads `--rounds`, `--seconds` and `--quick`.
pub(super) fn parse(arguments: &[String], usage: &'static str) -> Result<Options, UsageError> {
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let mut options = Options {
        rounds: if is_quick { 1 } else { 5 },
        measure_s: if is_quick { 1 } else { 4 },
        stored_plants: if is_quick { 2_000 } else { 100_000 },
        is_quick,
    };
    let mut arguments = arguments.iter().filter(|argument| *argument != "--quick");
    while let Some(name) = arguments.next() {
        let place = match name.as_str() {
            "--rounds" => &mut options.rounds,
            "--seconds" => &mut options.measure_s,
            _ => return Err(UsageError::new(format!("there is no option `{name}`"), usage)),
        };
        *place = value(name, arguments.next(), usage)?;
    }
    Ok(options)
}

/// What the command line of `bench postgres-move` can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct MoveOptions {
    pub(super) plants: u32,
}

impl MoveOptions {
    /// Whether its figures are those that stand in the documents.
    pub(super) fn is_documented(&self) -> bool {
        self.plants == MOVED_PLANTS
    }
}

/// Reads `--plants`.
pub(super) fn parse_move(
    arguments: &[String],
    usage: &'static str,
) -> Result<MoveOptions, UsageError> {
    let mut options = MoveOptions { plants: MOVED_PLANTS };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        if name != "--plants" {
            return Err(UsageError::new(format!("there is no option `{name}`"), usage));
        }
        options.plants = value(name, arguments.next(), usage)?;
    }
    Ok(options)
}

fn value(name: &str, value: Option<&String>, usage: &'static str) -> Result<u32, UsageError> {
    let value = value.ok_or_else(|| UsageError::new(format!("{name} needs a value"), usage))?;
    count(name, value, usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::options::tests::words;

    fn parsed(line: &str) -> Result<Options, UsageError> {
        parse(&words(line), "usage")
    }

    fn parsed_move(line: &str) -> Result<MoveOptions, UsageError> {
        parse_move(&words(line), "usage")
    }

    #[test]
    fn an_empty_line_means_five_rounds_of_four_seconds_for_the_documents() {
        let options = parsed("").unwrap();
        assert_eq!((options.rounds, options.measure_s), (5, 4));
        assert_eq!(options.stored_plants, 100_000);
        assert!(options.is_documented());
    }

    #[test]
    fn a_quick_run_is_short_and_not_for_the_documents_and_the_options_still_count() {
        let options = parsed("--seconds 2 --quick").unwrap();
        assert_eq!((options.rounds, options.measure_s), (1, 2));
        assert!(!options.is_documented());
    }

    #[test]
    fn a_million_plants_are_moved_for_the_documents() {
        let options = parsed_move("").unwrap();
        assert_eq!(options.plants, 1_000_000);
        assert!(options.is_documented());
        let fewer = parsed_move("--plants 5000").unwrap();
        assert_eq!(fewer.plants, 5_000);
        assert!(!fewer.is_documented());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--round 1", "--rounds", "--rounds 0", "--seconds -1", "--plants 1", "5"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        for line in ["--plant 1", "--plants", "--plants 0", "--plants many", "--quick"] {
            assert!(parsed_move(line).is_err(), "{line}");
        }
    }
}
