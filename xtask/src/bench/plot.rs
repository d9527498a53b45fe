//! Plots as SVG, drawn by gnuplot; those with bars.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::spread::Spread;

/// What the scripts of all plots begin with.
pub(super) const STYLE: &str = "\
set terminal svg size 900,440 dynamic background rgb 'white' font 'sans-serif,13'
set yrange [0:*]
set grid ytics linecolor rgb '#dddddd'
set ytics nomirror
";
/// What stands for a bar that a group does not have.
const MISSING: &str = "?";

/// Groups of bars, each bar with its ends as whiskers.
#[derive(Debug)]
pub(super) struct BarPlot {
    pub(super) title: &'static str,
    /// What a bar counts.
    pub(super) unit: &'static str,
    /// The names of the bars, which are the same in all groups.
    pub(super) series: Vec<&'static str>,
    pub(super) groups: Vec<Group>,
}

/// Bars that stand next to each other.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// One for each series, where there is one.
    pub(super) bars: Vec<Option<Spread>>,
}

impl BarPlot {
    /// Draws it into a file.
    pub(super) fn draw(&self, path: &Path) -> anyhow::Result<()> {
        draw(&self.script()?, path)
    }

    fn script(&self) -> anyhow::Result<String> {
        let Self { title, unit, series, groups } = self;
        let mut script = format!(
            "{STYLE}set title \"{title}\" noenhanced\n\
             set ylabel \"{unit}\" noenhanced\n\
             set format y \"%.10g\"\n\
             set key outside bottom center horizontal noenhanced\n\
             set xtics nomirror scale 0 noenhanced\n\
             set border 3\n\
             set style data histograms\n\
             set style histogram errorbars gap 1 linewidth 1\n\
             set style fill solid 0.9 noborder\n\
             set errorbars 0.6 linecolor rgb '#333333'\n\
             set datafile missing '{MISSING}'\n\
             $bars << END\n"
        );
        for Group { name, bars } in groups {
            write!(script, "\"{name}\"")?;
            for bar in bars {
                match bar {
                    Some(Spread { median, min, max }) => write!(script, " {median} {min} {max}")?,
                    None => write!(script, " {MISSING} {MISSING} {MISSING}")?,
                }
            }
            script.push('\n');
        }
        script.push_str("END\nplot ");
        let plots: Vec<String> = series
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let (median, min, max) = (3 * index + 2, 3 * index + 3, 3 * index + 4);
                format!("$bars using {median}:{min}:{max}:xtic(1) title \"{name}\"")
            })
            .collect();
        writeln!(script, "{}", plots.join(", "))?;
        Ok(script)
    }
}

/// Draws what a script says into a file.
pub(super) fn draw(script: &str, path: &Path) -> anyhow::Result<()> {
    let svg = run_gnuplot(script).with_context(|| format!("cannot draw {}", path.display()))?;
    fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
}

fn run_gnuplot(script: &str) -> anyhow::Result<Vec<u8>> {
    let mut gnuplot = Command::new("gnuplot")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start gnuplot")?;
    // It reads all of it before it prints anything; the end of the script is that of its stdin.
    let written = gnuplot.stdin.take().map(|mut stdin| stdin.write_all(script.as_bytes()));
    let output = gnuplot.wait_with_output().context("cannot wait for gnuplot")?;
    if !output.status.success() || !output.stdout.trim_ascii_end().ends_with(b"</svg>") {
        bail!("gnuplot failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    written.context("gnuplot has no stdin")?.context("cannot send the script to gnuplot")?;
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_a_line_of_data_and_each_series_a_column_with_its_ends() {
        let spread = |median| Spread { median, min: median - 1.0, max: median + 1.0 };
        let plot = BarPlot {
            title: "Creates",
            unit: "creates/s",
            series: vec!["plantd", "ceiling"],
            groups: vec![
                Group { name: "1".to_owned(), bars: vec![Some(spread(5.0)), Some(spread(7.0))] },
                Group { name: "64".to_owned(), bars: vec![Some(spread(50.0)), None] },
            ],
        };
        let script = plot.script().unwrap();
        let data = "$bars << END\n\"1\" 5 4 6 7 6 8\n\"64\" 50 49 51 ? ? ?\nEND\n";
        assert!(script.contains(data), "{script}");
        assert!(script.ends_with(
            "plot $bars using 2:3:4:xtic(1) title \"plantd\", \
             $bars using 5:6:7:xtic(1) title \"ceiling\"\n"
        ));
    }
}
