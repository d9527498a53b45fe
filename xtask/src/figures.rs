//! The figures of torture tests, as a table.

use serde::Deserialize;

/// A row of the table, written by tests as a line of a file.
#[derive(Debug, Deserialize)]
pub(crate) struct Figures {
    pub(crate) test: String,
    pub(crate) promise: String,
    pub(crate) disturbances: String,
    pub(crate) losses: String,
    pub(crate) details: String,
}

/// The figures as a table in Markdown.
pub(crate) fn table(figures: &[Figures]) -> String {
    let row = |Figures { test, promise, disturbances, losses, details }: &Figures| {
        format!(
            "| {promise} | {disturbances} | {losses} | {details}; `cargo xtask torture {test}` |\n"
        )
    };
    let head = "| promise | disturbances | losses | details |\n|---|---|---|---|\n".to_owned();
    head + &figures.iter().map(row).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_a_row_with_the_command_that_repeats_the_test() {
        let line = r#"{"test":"kill","promise":"p","disturbances":"10 kills","losses":"0 of 9","details":"d"}"#;
        let table = table(&[serde_json::from_str(line).unwrap()]);
        assert_eq!(
            table.lines().last(),
            Some("| p | 10 kills | 0 of 9 | d; `cargo xtask torture kill` |")
        );
    }
}
