//! What a bench writes: tables in Markdown, plots, JSON, and the measured parts of docs/performance.md.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, ensure};

use super::measure::{Claim, Figures, Latency, Round, Spread};
use super::options::Options;

/// The cores, the processor and the kernel of this machine.
pub(super) fn machine() -> anyhow::Result<String> {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").context("the benches run on Linux only")?;
    let model = cpu_info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unnamed processor", |(_, model)| model);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cores = thread::available_parallelism()?;
    Ok(format!("{cores} cores of {model}, Linux {}", kernel.trim()))
}

/// A table whose first `text_columns` columns are text; the others are numbers.
pub(super) fn table(head: &[&str], text_columns: usize, rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let rows: Vec<&Vec<String>> = [&head].into_iter().chain(rows).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut lines = Vec::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < text_columns {
                format!(" {cell:<width$} |")
            } else {
                format!(" {cell:>width$} |")
            }
        });
        lines.push(format!("|{}\n", cells.collect::<String>()));
    }
    let rules = widths.iter().enumerate().map(|(column, width)| {
        let colon = if column < text_columns { "-" } else { ":" };
        format!(" {}{colon} |", "-".repeat(width.saturating_sub(1)))
    });
    lines.insert(1, format!("|{}\n", rules.collect::<String>()));
    lines.concat()
}

/// A number with so many decimals, and with commas between thousands.
pub(super) fn number(value: f64, decimals: usize) -> String {
    let mut text = format!("{value:.decimals$}");
    let mut comma = text.find('.').unwrap_or(text.len());
    while comma > 3 {
        comma -= 3;
        text.insert(comma, ',');
    }
    text
}

/// The median, with the ends in brackets.
pub(super) fn with_ends(spread: Option<Spread>, decimals: usize) -> String {
    let text = spread.map(|Spread { median, min, max }| {
        let [median, min, max] = [median, min, max].map(|value| number(value, decimals));
        format!("{median} ({min} to {max})")
    });
    text.unwrap_or_default()
}

/// The claims that the rounds say something about.
pub(super) fn claim_section(claims: &[Claim], rounds: &[Round]) -> String {
    let row = |(what, target, value): &Claim| {
        let Spread { median, min, max } = Spread::over(rounds, value)?;
        let verdict = target.verdict(median).to_owned();
        let numbers = [median, min, max].map(|value| number(value, 2));
        Some([(*what).to_owned(), verdict, target.to_string()].into_iter().chain(numbers).collect())
    };
    let rows = claims.iter().filter_map(row).collect();
    let head = ["claim", "", "target", "median", "min", "max"];
    section("Claims; each value is one of a round.", &head, 2, rows)
}

/// The rates of all measurements but those of the work `except`. The ratio is to the first of `references`, none of
/// which has one.
pub(super) fn rate_section(rounds: &[Round], references: &[&str], except: &str) -> String {
    let row = |(work, program, _): &(&'static str, &'static str, Figures)| {
        let median = |value: fn(Latency) -> f64| {
            let spread = Spread::over(rounds, |round| round.latency(work, program).map(value));
            spread.map(|spread| number(spread.median, 3)).unwrap_or_default()
        };
        let rate = Spread::over(rounds, |round| Some(round.figures(work, program)?.per_s()));
        let ratio = Spread::over(rounds, |round| round.ratio(work, program, references[0]));
        let ratio = ratio.filter(|_| !references.contains(program));
        let [p50, p99] = [median(|latency| latency.p50), median(|latency| latency.p99)];
        let [work, program] = [*work, *program].map(str::to_owned);
        vec![work, program, with_ends(rate, 0), p50, p99, with_ends(ratio, 2)]
    };
    // The first round has the order of the turns.
    let measurements = rounds.iter().take(1).flat_map(|round| &round.0);
    let rows = measurements.filter(|(work, ..)| *work != except).map(row).collect();
    let ratio = format!("of {}", references[0]);
    let head = ["work", "program", "per second", "p50, ms", "p99, ms", &ratio];
    section("Rates, as fast as it goes.", &head, 2, rows)
}

/// A heading and a table, unless that has no rows.
pub(super) fn section(
    heading: &str,
    head: &[&str],
    text_columns: usize,
    rows: Vec<Vec<String>>,
) -> String {
    let table = table(head, text_columns, &rows);
    if rows.is_empty() { String::new() } else { format!("\n{heading}\n\n{table}") }
}

/// Prints the text of a bench and, if the options say so, puts it between `<!-- measured: NAME -->` and `<!-- end -->`
/// in docs/performance.md.
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

/// A plot of series that have a value for each row.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) y_label: &'a str,
    /// For lines, the label of the x axis and how that scales; without it, rows are groups of bars with whiskers.
    pub(super) lines: Option<(&'a str, &'a str)>,
    /// The last line is memory, on an axis of its own.
    pub(super) series: Vec<&'a str>,
    /// The name of a group or the place on the x axis, and the values.
    pub(super) rows: Vec<(String, Vec<Option<Spread>>)>,
}

impl Plot<'_> {
    /// Has gnuplot draw it as SVG, unless nothing of it was measured.
    pub(super) fn draw(&self, path: &Path) -> anyhow::Result<()> {
        if self.rows.iter().flat_map(|(_, values)| values).all(Option::is_none) {
            return Ok(());
        }
        let svg = File::create(path).with_context(|| path.display().to_string())?;
        let mut gnuplot = Command::new("gnuplot").stdin(Stdio::piped()).stdout(svg).spawn()?;
        // The script ends where stdin is closed, right here.
        gnuplot.stdin.take().context("no stdin")?.write_all(self.script().as_bytes())?;
        let status = gnuplot.wait()?;
        ensure!(status.success(), "gnuplot cannot draw {} ({status})", path.display());
        Ok(())
    }

    fn script(&self) -> String {
        let mut script = format!(
            "set terminal svg size 900,440 dynamic background rgb 'white' font 'sans-serif,13'\n\
             set title \"{}\" noenhanced\n\
             set ylabel \"{}\" noenhanced\n\
             set yrange [0:*]\n\
             set format y \"%'.10g\"\n\
             set grid ytics linecolor rgb '#dddddd'\n\
             set ytics nomirror\n\
             set xtics nomirror noenhanced\n\
             set key outside bottom center horizontal noenhanced\n\
             set datafile missing '?'\n\
             $data << END\n",
            self.title, self.y_label
        );
        for (name, values) in &self.rows {
            let values = values.iter().map(|value| {
                value.map_or(" ? ? ?".to_owned(), |Spread { median, min, max }| {
                    format!(" {median} {min} {max}")
                })
            });
            let quote = if self.lines.is_some() { "" } else { "\"" };
            script.push_str(&format!("{quote}{name}{quote}{}\n", values.collect::<String>()));
        }
        script.push_str("END\n");
        script.push_str(&match self.lines {
            Some((x_label, x_scale)) => format!(
                "set border 11\n\
                 set xlabel \"{x_label}\" noenhanced\n\
                 {x_scale}\n\
                 set y2label \"memory, MB\" noenhanced\n\
                 set y2range [0:*]\n\
                 set format y2 \"%'.10g\"\n\
                 set y2tics nomirror\n"
            ),
            None => "set border 3\n\
                     set xtics scale 0\n\
                     set style data histograms\n\
                     set style histogram errorbars gap 1 linewidth 1\n\
                     set style fill solid 0.9 noborder\n\
                     set errorbars 0.6 linecolor rgb '#333333'\n"
                .to_owned(),
        });
        let plots = self.series.iter().enumerate().map(|(index, name)| {
            let (median, min, max) = (3 * index + 2, 3 * index + 3, 3 * index + 4);
            let axes = if index + 1 == self.series.len() { "x1y2" } else { "x1y1" };
            match self.lines {
                Some(_) => format!(
                    "$data using 1:{median} axes {axes} with linespoints linewidth 2 pointtype 7 \
                     pointsize 0.5 title \"{name}\""
                ),
                None => format!("$data using {median}:{min}:{max}:xtic(1) title \"{name}\""),
            }
        });
        script + "plot " + &plots.collect::<Vec<_>>().join(", ") + "\n"
    }
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
        assert_eq!(table(&["name", "rate"], 1, &[row]), expected);
        assert_eq!(
            [0.4, 999.6, 123_456.0].map(|value| number(value, 0)),
            ["0", "1,000", "123,456"]
        );
        assert_eq!([0.4, 2_594.36].map(|value| number(value, 1)), ["0.4", "2,594.4"]);
    }
}
