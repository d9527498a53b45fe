//! What a run of the suite says: as JSON, as tables and as plots.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::claims::{self, BARE_WRITE, Judgement};
use super::contender::{CEILING, PLANTD};
use super::load::WARM_UP_S;
use super::machine::Machine;
use super::measurement::{CONNECTIONS, Round, Summary, Work, summaries};
use super::options::IdOrder;
use super::plot::{BarPlot, Group};
use super::spread::Spread;
use super::suite_options::SuiteOptions;
use super::table::{Table, milliseconds, whole, with_ends};
use super::wrk;

/// In the order in which they stand in tables.
const WORKS: [Work; 12] = [
    Work::create(1),
    Work::Create { connections: 1, ids: IdOrder::Random },
    Work::create(CONNECTIONS),
    Work::Create { connections: CONNECTIONS, ids: IdOrder::Random },
    Work::create(256),
    Work::Create { connections: 256, ids: IdOrder::Random },
    Work::Read,
    Work::List,
    Work::Mix,
    Work::Import,
    Work::Export,
    Work::CreateAtHalfLoad,
];

/// What ends up in `target/bench/report.json`.
#[derive(Debug, Serialize)]
pub(super) struct SuiteReport {
    machine: Machine,
    options: SuiteOptions,
    warm_up_s: u32,
    wrk_max_threads: u32,
    claims: Vec<Judgement>,
    summaries: Vec<Summary>,
    rounds: Vec<Round>,
}

impl SuiteReport {
    pub(super) fn new(
        machine: Machine,
        options: SuiteOptions,
        programs: &[&'static str],
        rounds: Vec<Round>,
    ) -> Self {
        Self {
            machine,
            options,
            warm_up_s: WARM_UP_S,
            wrk_max_threads: wrk::MAX_THREADS,
            claims: claims::judge(&rounds),
            summaries: summaries(&rounds, &WORKS, programs, CEILING),
            rounds,
        }
    }

    /// Draws all plots into a folder.
    pub(super) fn draw(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let creates = [1, CONNECTIONS, 256].map(|connections| {
            let plural = if connections == 1 { "" } else { "s" };
            (format!("{connections} connection{plural}"), Work::create(connections))
        });
        let others = [Work::Read, Work::List, Work::Mix].map(|work| (work.to_string(), work));
        self.rates("Creates, ascending ids", "creates/s", &creates)
            .draw(&folder.join("creates.svg"))?;
        self.rates("64 connections, a store of 100,000 plants", "requests/s", &others)
            .draw(&folder.join("reads.svg"))?;
        self.latencies().draw(&folder.join("latencies.svg"))
    }

    fn of(&self, work: Work) -> impl Iterator<Item = &Summary> {
        self.summaries.iter().filter(move |summary| summary.work == work)
    }

    fn find(&self, work: Work, program: &str) -> Option<&Summary> {
        self.of(work).find(|summary| summary.program == program)
    }

    fn rates(&self, title: &'static str, unit: &'static str, works: &[(String, Work)]) -> BarPlot {
        // Those that are no servers are not asked.
        let series: Vec<&'static str> =
            self.of(Work::create(CONNECTIONS)).map(|summary| summary.program).collect();
        let groups = works.iter().map(|(name, work)| {
            let bar = |program: &&str| Some(self.find(*work, program)?.per_s.clone());
            Group { name: name.clone(), bars: series.iter().map(bar).collect() }
        });
        BarPlot { title, unit, groups: groups.collect(), series }
    }

    fn latencies(&self) -> BarPlot {
        let series = vec![PLANTD, CEILING];
        let percentile = |index: usize, program: &str| {
            let Summary { p50_us, p99_us, p999_us, .. } =
                self.find(Work::CreateAtHalfLoad, program)?;
            let Spread { median, min, max } = [p50_us, p99_us, p999_us][index].as_ref()?;
            Some(Spread { median: median / 1_000.0, min: min / 1_000.0, max: max / 1_000.0 })
        };
        let groups = ["p50", "p99", "p99.9"].into_iter().enumerate().map(|(index, name)| Group {
            name: name.to_owned(),
            bars: series.iter().map(|program| percentile(index, program)).collect(),
        });
        BarPlot {
            title: "Latency of creates at half load, 64 connections",
            unit: "ms",
            groups: groups.collect(),
            series,
        }
    }

    fn rate_table(&self) -> Table {
        let head = ["work", "program", "per second", "p50, ms", "p99, ms", "of the ceiling"];
        let mut table = Table::new(&head, 2);
        let summaries = self.summaries.iter();
        for summary in summaries.filter(|summary| summary.work != Work::CreateAtHalfLoad) {
            let Summary { work, program, per_s, p50_us, p99_us, p999_us: _, ratio } = summary;
            let median =
                |spread: &Option<Spread>| spread.as_ref().map(|spread| milliseconds(spread.median));
            let of_ceiling = ratio.as_ref().filter(|_| ![CEILING, BARE_WRITE].contains(program));
            table.push([
                work.to_string(),
                (*program).to_owned(),
                with_ends(per_s, whole),
                median(p50_us).unwrap_or_default(),
                median(p99_us).unwrap_or_default(),
                of_ceiling
                    .map(|ratio| with_ends(ratio, |value| format!("{value:.2}")))
                    .unwrap_or_default(),
            ]);
        }
        table
    }

    fn latency_table(&self) -> Table {
        let head = ["program", "creates/s", "p50, ms", "p99, ms", "p99.9, ms"];
        let mut table = Table::new(&head, 1);
        for summary in self.of(Work::CreateAtHalfLoad) {
            let percentile = |spread: &Option<Spread>| {
                spread.as_ref().map(|spread| with_ends(spread, milliseconds)).unwrap_or_default()
            };
            table.push([
                summary.program.to_owned(),
                whole(summary.per_s.median),
                percentile(&summary.p50_us),
                percentile(&summary.p99_us),
                percentile(&summary.p999_us),
            ]);
        }
        table
    }
}

impl Display for SuiteReport {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let SuiteOptions { rounds, measure_s, imported_plants, stored_plants, .. } = &self.options;
        writeln!(
            formatter,
            "{}. Rounds: {rounds}, of {measure_s} s for each measurement. {} plants are imported, and {} stored\n\
             for reads, lists and the mix. The median of the rounds, with the least and the greatest in brackets.",
            self.machine,
            whole(*imported_plants as f64),
            whole(*stored_plants as f64),
        )?;
        for (heading, table) in [
            ("Claims; each value is one of a round.", claims::table(&self.claims)),
            ("Rates, as fast as it goes.", self.rate_table()),
            (
                "Latencies of creates at half of the best rate of plantd, of 64 connections.",
                self.latency_table(),
            ),
        ] {
            if !table.is_empty() {
                write!(formatter, "\n{heading}\n\n{table}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::measurement::tests::measurement;
    use super::super::suite_options;
    use super::super::table::tests::narrow_lines;
    use super::*;

    fn report() -> SuiteReport {
        let round = |plantd| Round {
            measurements: vec![
                measurement(Work::create(CONNECTIONS), PLANTD, plantd, 1_500),
                measurement(Work::create(CONNECTIONS), CEILING, 80_000, 700),
                measurement(Work::Read, PLANTD, 70_000, 900),
            ],
        };
        let options = suite_options::parse(&[], "").unwrap();
        let rounds = vec![round(40_000), round(60_000), round(48_000)];
        SuiteReport::new(Machine::this().unwrap(), options, &[PLANTD, CEILING], rounds)
    }

    #[test]
    fn tables_show_what_was_measured_and_the_claims_about_it() {
        let text = report().to_string();
        let lines = narrow_lines(&text);
        for line in [
            "| creates at 64 connections, plantd/ceiling | met | ≥ 0.55 | 0.60 | 0.50 | 0.75 |",
            "| create, 64 connections, ascending ids | plantd | 48,000 (40,000 to 60,000) | 1.500 | \
             1.500 | 0.60 (0.50 to 0.75) |",
            "| create, 64 connections, ascending ids | ceiling | 80,000 (80,000 to 80,000) | 0.700 | \
             0.700 | |",
            "| read by id | plantd | 70,000 (70,000 to 70,000) | 0.900 | 0.900 | |",
        ] {
            assert!(lines.iter().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(!text.contains("half of the best rate"), "{text}");
    }

    #[test]
    fn a_plot_has_a_bar_for_what_was_measured_and_a_gap_for_what_was_not() {
        let works = [Work::create(1), Work::Read].map(|work| (work.to_string(), work));
        let plot = report().rates("title", "unit", &works);
        assert_eq!(plot.series, [PLANTD, CEILING]);
        let bars: Vec<Vec<bool>> = plot
            .groups
            .iter()
            .map(|group| group.bars.iter().map(Option::is_some).collect())
            .collect();
        assert_eq!(bars, [[false, false], [true, false]]);
    }
}
