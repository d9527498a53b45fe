//! The output of a bench: tables in Markdown, and the measured parts of docs/performance.md.

use std::fs;
use std::thread;

use anyhow::{Context as _, ensure};

use super::measure::{Results, Series, Target, spread};
use super::options::Options;

/// The cores, the processor and the kernel of this machine.
pub(super) fn machine() -> anyhow::Result<String> {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").context("the benches run on Linux only")?;
    let model = cpu_info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unnamed processor", |(_, model)| model);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    // What stands behind the hyphen names a build, not a version.
    let kernel = release.trim().split('-').next().unwrap_or_default();
    let cores = thread::available_parallelism()?;
    Ok(format!("{cores} cores of {model}, Linux {kernel}"))
}

/// A table whose first `text_columns` columns are text; the others are numbers. Empty without rows.
pub(super) fn table(head: &[&str], text_columns: usize, mut rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, head.iter().map(|name| (*name).to_owned()).collect());
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).filter_map(width).collect();
    let rule = |(column, width): (usize, &usize)| {
        let last = if column < text_columns { "-" } else { ":" };
        "-".repeat(width.saturating_sub(1)) + last
    };
    rows.insert(1, widths.iter().enumerate().map(rule).collect());
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            text += &match column < text_columns {
                true => format!("| {cell:<width$} "),
                false => format!("| {cell:>width$} "),
            };
        }
        text += "|\n";
    }
    text
}

/// A number with this many decimals, and with commas between thousands.
pub(super) fn number(value: f64, decimals: usize) -> String {
    let mut text = format!("{value:.decimals$}");
    let mut comma = text.find('.').unwrap_or(text.len());
    while comma > 3 {
        comma -= 3;
        text.insert(comma, ',');
    }
    text
}

/// The median of values, if there are any.
pub(super) fn median(values: Vec<f64>, decimals: usize) -> String {
    spread(values).map(|[median, ..]| number(median, decimals)).unwrap_or_default()
}

/// The median of values, and the least and the greatest in brackets, if there are any.
fn with_ends(values: Vec<f64>, decimals: usize) -> String {
    let numbers = spread(values).map(|spread| spread.map(|value| number(value, decimals)));
    numbers.map(|[median, min, max]| format!("{median} ({min} to {max})")).unwrap_or_default()
}

/// The targets and the measured values. Claims without values are left out.
pub(super) fn claims(claims: Vec<(&str, Target, Vec<f64>)>) -> String {
    let row = |(what, target, values): (&str, Target, Vec<f64>)| {
        let spread = spread(values)?;
        let mut texts = vec![what.to_owned(), target.verdict(spread[0]).to_owned()];
        texts.extend(target.texts());
        texts.extend(spread.map(|value| number(value, 2)));
        Some(texts)
    };
    let rows = claims.into_iter().filter_map(row).collect();
    let table = table(&["claim", "", "goal", "aim", "median", "min", "max"], 2, rows);
    format!("Claims; each value is one of a round.\n\n{table}")
}

/// All measurements, with the ratios of each rate to those of the programs `references` at the same workload.
pub(super) fn measurements(options: &Options, results: &Results, references: &[&str]) -> String {
    let row = |Series { workload, program, .. }: &Series| {
        let mut row = vec![(*workload).to_owned(), (*program).to_owned()];
        row.push(with_ends(results.rates(workload, program), 0));
        row.extend((0..4).map(|place| median(results.latencies(workload, program, place), 3)));
        row.extend(references.iter().map(|reference| {
            let ratios = results.ratios(workload, program, reference);
            if program == reference { String::new() } else { with_ends(ratios, 2) }
        }));
        row
    };
    let ratios: Vec<_> = references.iter().map(|reference| format!("of {reference}")).collect();
    let mut head = vec!["workload", "program", "per second", "p50, ms", "p99, ms", "p99.9, ms"];
    head.push("longest, ms");
    head.extend(ratios.iter().map(String::as_str));
    format!(
        "Medians of {} rounds, of {} s for each measurement, with the least and the greatest in brackets.\n\n{}",
        options.rounds,
        options.duration.as_secs(),
        table(&head, 2, results.0.iter().map(row).collect())
    )
}

/// Prints the text of a bench and, if the options ask for it, puts it between `<!-- measured: NAME -->` and `<!-- end
/// -->` in docs/performance.md.
pub(super) fn publish(options: &Options, name: &str, text: &str) -> anyhow::Result<()> {
    println!("\n{text}");
    if !options.is_documented() {
        return Ok(());
    }
    let path = options.workspace.workspace_root.join("docs/performance.md");
    let context = || format!("cannot update {path}");
    let document = fs::read_to_string(&path).with_context(context)?;
    fs::write(&path, refreshed(&document, name, text).with_context(context)?).with_context(context)
}

fn refreshed(text: &str, name: &str, content: &str) -> anyhow::Result<String> {
    let start = format!("<!-- measured: {name} -->\n");
    let end = "<!-- end -->";
    let advice = || format!("write the line `{}` and a line `{end}` behind it", start.trim_end());
    let (before, rest) = text.split_once(&start).with_context(advice)?;
    let (old, after) = rest.split_once(end).with_context(advice)?;
    ensure!(!old.contains("<!-- measured:"), advice());
    Ok(format!("{before}{start}\n{}\n\n{end}{after}", content.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Prose.\n\n<!-- measured: one -->\nold\n<!-- end -->\n\nMore prose.\n\n\
                        <!-- measured: two -->\n<!-- end -->\n";

    #[test]
    fn new_figures_replace_the_old_ones_and_all_else_stays() {
        let expected = "Prose.\n\n<!-- measured: one -->\n\nnew\n\n<!-- end -->\n\nMore prose.\n\n\
                        <!-- measured: two -->\n<!-- end -->\n";
        assert_eq!(refreshed(TEXT, "one", "new\n").unwrap(), expected);
        assert_eq!(refreshed(expected, "one", "new\n").unwrap(), expected);
        assert!(refreshed(TEXT, "two", "new").unwrap().contains("\nold\n"));
    }

    #[test]
    fn marks_that_are_missing_or_belong_to_another_part_are_an_error() {
        let error = refreshed(TEXT, "three", "new").unwrap_err().to_string();
        assert!(error.contains("`<!-- measured: three -->`"), "{error}");
        let text = "<!-- measured: one -->\nprose\n<!-- measured: two -->\n<!-- end -->\n";
        assert!(refreshed(text, "one", "new").is_err());
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_thousands_are_separated() {
        let row = vec!["plantd – all".to_owned(), number(1_234_567.4, 0)];
        let expected = "| name         |      rate |\n\
                        | ------------ | --------: |\n\
                        | plantd – all | 1,234,567 |\n";
        assert_eq!(table(&["name", "rate"], 1, vec![row]), expected);
        let whole = |value| number(value, 0);
        assert_eq!([0.4, 999.6, 123_456.0].map(whole), ["0", "1,000", "123,456"]);
        assert_eq!([0.4, 2_594.36].map(|value| number(value, 1)), ["0.4", "2,594.4"]);
    }
}
