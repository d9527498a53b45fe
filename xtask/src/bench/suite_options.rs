//! What of the suite is measured, and for how long.

use serde::Serialize;

use super::options::count;
use crate::usage::UsageError;

/// What the command line can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct SuiteOptions {
    /// How often each program is measured.
    pub(super) rounds: u32,
    /// How long each measurement takes.
    pub(super) measure_s: u32,
    pub(super) parts: Vec<Part>,
    /// How many plants the stores have that are read, listed and mixed.
    pub(super) stored_plants: u64,
    pub(super) imported_plants: u64,
    is_quick: bool,
}

/// A part of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    Create,
    Read,
    List,
    Mix,
    Import,
    Latency,
    Single,
}

impl Part {
    const ALL: [Self; 7] = [
        Self::Create,
        Self::Read,
        Self::List,
        Self::Mix,
        Self::Import,
        Self::Latency,
        Self::Single,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::List => "list",
            Self::Mix => "mix",
            Self::Import => "import",
            Self::Latency => "latency",
            Self::Single => "single",
        }
    }
}

impl SuiteOptions {
    pub(super) fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Whether its figures are those that stand in the documents.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_quick && Part::ALL.iter().all(|part| self.has(*part))
    }
}

/// Reads `--rounds`, `--seconds`, `--only` and `--quick`.
pub(super) fn parse(arguments: &[String], usage: &'static str) -> Result<SuiteOptions, UsageError> {
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let mut options = SuiteOptions {
        rounds: if is_quick { 1 } else { 5 },
        measure_s: if is_quick { 1 } else { 4 },
        parts: Part::ALL.to_vec(),
        // The slowest program takes two minutes for as many.
        stored_plants: if is_quick { 2_000 } else { 100_000 },
        imported_plants: if is_quick { 20_000 } else { 1_000_000 },
        is_quick,
    };
    let mut arguments = arguments.iter().filter(|argument| *argument != "--quick");
    while let Some(name) = arguments.next() {
        if !["--rounds", "--seconds", "--only"].contains(&name.as_str()) {
            return Err(UsageError::new(format!("there is no option `{name}`"), usage));
        }
        let Some(value) = arguments.next() else {
            return Err(UsageError::new(format!("{name} needs a value"), usage));
        };
        match name.as_str() {
            "--rounds" => options.rounds = count(name, value, usage)?,
            "--seconds" => options.measure_s = count(name, value, usage)?,
            _ => options.parts = parts(value, usage)?,
        }
    }
    Ok(options)
}

fn parts(value: &str, usage: &'static str) -> Result<Vec<Part>, UsageError> {
    let part = |word: &str| {
        let part = Part::ALL.into_iter().find(|part| part.name() == word);
        part.ok_or_else(|| UsageError::new(format!("there is no part `{word}`"), usage))
    };
    value.split(',').map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::words;
    use super::*;

    fn parsed(line: &str) -> Result<SuiteOptions, UsageError> {
        parse(&words(line), "usage")
    }

    #[test]
    fn an_empty_line_means_all_of_it_in_five_rounds_of_four_seconds() {
        let options = parsed("").unwrap();
        assert_eq!((options.rounds, options.measure_s), (5, 4));
        assert_eq!((options.stored_plants, options.imported_plants), (100_000, 1_000_000));
        assert!(options.is_whole());
    }

    #[test]
    fn a_quick_run_is_short_and_not_for_the_documents_and_the_options_still_count() {
        let options = parsed("--rounds 2 --quick").unwrap();
        assert_eq!((options.rounds, options.measure_s), (2, 1));
        assert_eq!(options.imported_plants, 20_000);
        assert!(!options.is_whole());
    }

    #[test]
    fn parts_are_named_with_commas_between_them_and_are_not_for_the_documents() {
        let options = parsed("--only read,single").unwrap();
        assert_eq!(options.parts, [Part::Read, Part::Single]);
        assert!(!options.has(Part::Create) && !options.is_whole());
        assert!(parsed("--only create,read,list,mix,import,latency,single").unwrap().is_whole());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--round 1", "--rounds", "--seconds 0", "--only reads", "--only", "5"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
