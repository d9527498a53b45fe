//! How much load a bench makes.

use serde::Serialize;

use crate::usage::UsageError;

/// What the command line can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Options {
    /// How often each program is measured.
    pub(super) rounds: u32,
    /// How long each measurement takes.
    pub(super) measure_s: u32,
    pub(super) connections: u32,
    pub(super) ids: IdOrder,
}

/// In which order the ids of new plants come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IdOrder {
    Ascending,
    /// All over the range of ids, so that each lands in another place of an ordered store.
    Random,
}

impl IdOrder {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Random => "random",
        }
    }
}

/// Reads `--rounds`, `--seconds`, `--connections` and `--ids`.
pub(super) fn parse(arguments: &[String], usage: &'static str) -> Result<Options, UsageError> {
    let mut options = Options { rounds: 5, measure_s: 5, connections: 64, ids: IdOrder::Ascending };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let known = ["--rounds", "--seconds", "--connections", "--ids"];
        if !known.contains(&name.as_str()) {
            return Err(UsageError::new(format!("there is no option `{name}`"), usage));
        }
        let Some(value) = arguments.next() else {
            return Err(UsageError::new(format!("{name} needs a value"), usage));
        };
        let count = || count(name, value, usage);
        match name.as_str() {
            "--rounds" => options.rounds = count()?,
            "--seconds" => options.measure_s = count()?,
            "--connections" => options.connections = count()?,
            _ => {
                options.ids = match value.as_str() {
                    "ascending" => IdOrder::Ascending,
                    "random" => IdOrder::Random,
                    _ => {
                        return Err(UsageError::new(
                            format!("{name} needs `ascending` or `random`, not `{value}`"),
                            usage,
                        ));
                    }
                }
            }
        }
    }
    Ok(options)
}

/// The value of an option that counts something.
pub(super) fn count(name: &str, value: &str, usage: &'static str) -> Result<u32, UsageError> {
    match value.parse::<u32>() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(UsageError::new(
            format!("{name} needs a whole number of at least 1, not `{value}`"),
            usage,
        )),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a shell makes of a simple line.
    pub(in crate::bench) fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn parsed(line: &str) -> Result<Options, UsageError> {
        parse(&words(line), "usage")
    }

    #[test]
    fn an_empty_line_means_five_rounds_of_five_seconds_on_64_connections() {
        let expected =
            Options { rounds: 5, measure_s: 5, connections: 64, ids: IdOrder::Ascending };
        assert_eq!(parsed("").unwrap(), expected);
    }

    #[test]
    fn every_option_is_taken() {
        let expected = Options { rounds: 1, measure_s: 2, connections: 3, ids: IdOrder::Random };
        assert_eq!(
            parsed("--connections 3 --ids random --rounds 1 --seconds 2").unwrap(),
            expected
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--round 1",
            "--rounds",
            "--rounds 0",
            "--rounds one",
            "--seconds -1",
            "--connections 0",
            "--ids descending",
            "5",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
