//! What the bench found, as JSON and as the tables of the documents.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Serialize;

use super::cache::Point;
use super::costs::{Costs, Medians};
use super::growth::{Pair, Window};
use super::memory::MB;
use super::options::Options;
use super::targets::{self, Target};
use crate::bench::machine::Machine;
use crate::bench::spread::Spread;
use crate::bench::table::{Table, whole};

/// How many windows of the growth a table shows at most.
const GROWTH_ROWS: usize = 12;

const NOTES: [&str; 7] = [
    "Load generator (wrk, 2 threads, 64 connections) and server share the cores of the machine. Servers run as a \
     user starts them: default settings, access log on, stderr to a file.",
    "Plants are created by `POST /plants`, each with an id anywhere in the range of ids, a name of genus and epithet, \
     and one of 70 families as its tag, the first of them the most common by far.",
    "Creates of both sizes are windows of the same length, from about these sizes on, one right after \
     the other: a fresh small store for each window in the large one.",
    "Room on disk is what the files of the data folder have allocated. The newest million events, which every \
     plant of the small store still has, are part of it.",
    "Memory is `VmRSS`, the most is `VmHWM`; a MB is 1,000,000 bytes.",
    "Files may be in the memory of the kernel, except where it says that they are read from disk.",
    "Reads are of plants that are there, each as likely as any other; lists are of 100 plants after any id.",
];

/// What ends up in `target/bench/scale.json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) options: Options,
    pub(super) connections: u32,
    pub(super) small: Costs,
    pub(super) large: Costs,
    pub(super) growth: Vec<Window>,
    /// Creates at both sizes, of each round.
    pub(super) pairs: Vec<Pair>,
    pub(super) cache: Vec<Point>,
    pub(super) summary: Summary,
    notes: [&'static str; 7],
}

/// What comes of all that.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    small: Medians,
    large: Medians,
    small_creates_per_s: Spread,
    large_creates_per_s: Spread,
    /// Creates per second of the large store divided by those of the small one, of each round.
    rate_ratio: Spread,
    targets: [Target; 5],
}

impl Summary {
    pub(super) fn of(
        small: &Costs,
        large: &Costs,
        growth: &[Window],
        pairs: &[Pair],
    ) -> anyhow::Result<Self> {
        let rate_ratio =
            Spread::of(pairs.iter().map(Pair::ratio)).context("there are no rounds")?;
        let grown = growth.iter().map(|window| window.memory.peak_bytes);
        let compared = pairs.iter().map(|pair| pair.large.memory.peak_bytes);
        let peak_bytes = grown.chain(compared).chain(large.peak_bytes()).max();
        let peak_bytes = peak_bytes.context("nothing took memory")?;
        let large = large.medians().context("the large store was not measured")?;
        let rates = |rate: fn(&Pair) -> f64| Spread::of(pairs.iter().map(rate));
        Ok(Self {
            small: small.medians().context("the small store was not measured")?,
            small_creates_per_s: rates(|pair| pair.small.creates.requests_per_s())
                .context("there are no rounds")?,
            large_creates_per_s: rates(|pair| pair.large.creates.requests_per_s())
                .context("there are no rounds")?,
            targets: targets::targets(&large, peak_bytes, rate_ratio.median),
            rate_ratio,
            large,
        })
    }
}

impl Report {
    pub(super) fn new(
        machine: Machine,
        options: Options,
        connections: u32,
        [small, large]: [Costs; 2],
        growth: Vec<Window>,
        pairs: Vec<Pair>,
        cache: Vec<Point>,
    ) -> anyhow::Result<Self> {
        let summary = Summary::of(&small, &large, &growth, &pairs)?;
        let notes = NOTES;
        Ok(Self {
            machine,
            options,
            connections,
            small,
            large,
            growth,
            pairs,
            cache,
            summary,
            notes,
        })
    }

    /// All tables, in Markdown.
    pub(super) fn tables(&self) -> anyhow::Result<String> {
        let mut text = format!("{}.\n\n", self.machine);
        for table in
            [self.target_table(), self.cost_table(), self.growth_table(), self.cache_table()]
        {
            writeln!(text, "{table}")?;
        }
        for note in self.notes {
            writeln!(text, "- {note}")?;
        }
        if let Some(refusal) = &self.large.from_disk_refused {
            writeln!(
                text,
                "- No start was from disk: the kernel may not be told to forget files ({refusal})."
            )?;
        }
        Ok(text)
    }

    fn target_table(&self) -> Table {
        let size = format!("at {} plants", whole(self.summary.large.plants));
        let mut table = Table::new(&[&size, "target", "value", ""], 4);
        for Target { cost, target, value, verdict } in &self.summary.targets {
            let [cost, target, verdict] = [*cost, *target, verdict.name()].map(str::to_owned);
            table.push([cost, target, value.clone(), verdict]);
        }
        table
    }

    fn cost_table(&self) -> Table {
        let Summary { small, large, small_creates_per_s, large_creates_per_s, .. } = &self.summary;
        let [few, many] = [small, large].map(|costs| format!("{} plants", whole(costs.plants)));
        let mut table = Table::new(&["medians", &few, &many, "factor"], 1);
        // A factor of rates is the median of those of each round, as in the targets.
        table.push([
            "creates/s".to_owned(),
            whole(small_creates_per_s.median),
            whole(large_creates_per_s.median),
            format!("{:.2}", self.summary.rate_ratio.median),
        ]);
        let seconds = |value| format!("{value:.2}");
        let megabytes = |bytes| whole(bytes / MB);
        let milliseconds = |us| format!("{:.2}", us / 1_000.0);
        let mut row = |cost: &str, format: fn(f64) -> String, small: f64, large: f64| {
            let factor = format!("{:.2}", large / small);
            table.push([cost.to_owned(), format(small), format(large), factor]);
        };
        row("bytes on disk a plant", whole, small.disk_bytes_per_plant, large.disk_bytes_per_plant);
        row(
            "memory after the load, MB",
            megabytes,
            small.resident_after_load_bytes,
            large.resident_after_load_bytes,
        );
        row(
            "memory after a start, MB",
            megabytes,
            small.resident_after_start_bytes,
            large.resident_after_start_bytes,
        );
        row(
            "ready after a clean stop, s",
            seconds,
            small.ready_after_stop_s,
            large.ready_after_stop_s,
        );
        if let (Some(small), Some(large)) = (small.ready_from_disk_s, large.ready_from_disk_s) {
            row("the same, read from disk (one start), s", seconds, small, large);
        }
        row(
            "ready after SIGKILL under load, s",
            seconds,
            small.ready_after_kill_s,
            large.ready_after_kill_s,
        );
        row("reads by id/s", whole, small.reads_per_s, large.reads_per_s);
        row("read by id, p50 ms", milliseconds, small.read_p50_us, large.read_p50_us);
        row("read by id, p99 ms", milliseconds, small.read_p99_us, large.read_p99_us);
        row("lists of 100/s", whole, small.lists_per_s, large.lists_per_s);
        row("list of 100, p50 ms", milliseconds, small.list_p50_us, large.list_p50_us);
        row("list of 100, p99 ms", milliseconds, small.list_p99_us, large.list_p99_us);
        table
    }

    fn growth_table(&self) -> Table {
        let head = ["plants", "creates/s", "p99 ms", "memory, MB", "bytes on disk a plant"];
        let mut table = Table::new(&head, 0);
        for Window { plants, disk_bytes, memory, creates } in thinned(&self.growth, GROWTH_ROWS) {
            let plants = *plants as f64;
            table.push([
                whole(plants),
                whole(creates.requests_per_s()),
                format!("{:.1}", creates.latency_p99_us as f64 / 1_000.0),
                whole(memory.resident_bytes as f64 / MB),
                whole(*disk_bytes as f64 / plants),
            ]);
        }
        table
    }

    fn cache_table(&self) -> Table {
        let head = ["`--cache-mb`", "creates/s", "reads by id/s", "memory, MB", "ready, s"];
        let mut table = Table::new(&head, 0);
        for point in &self.cache {
            table.push([
                point.cache_mb.to_string(),
                whole(point.creates_per_s()),
                whole(point.reads.requests_per_s()),
                whole(point.memory.resident_bytes as f64 / MB),
                format!("{:.2}", point.start.ready_s),
            ]);
        }
        table
    }
}

/// At most `count` of all values, among them the last one, at even distances.
fn thinned<T>(values: &[T], count: usize) -> impl Iterator<Item = &T> {
    let step = values.len().div_ceil(count).max(1);
    let skipped = values.len().saturating_sub(1) % step;
    values.iter().skip(skipped).step_by(step)
}

#[cfg(test)]
mod tests {
    use super::super::costs::tests::costs;
    use super::super::growth::Rate;
    use super::super::memory::Memory;
    use super::super::options;
    use super::*;
    use crate::bench::table::tests::narrow_lines;
    use crate::bench::wrk::tests::outcome;

    fn report() -> Report {
        let memory = Memory { resident_bytes: 400_000_000, peak_bytes: 500_000_000 };
        let rate = |requests| Rate { plants: 100, creates: outcome(requests), memory };
        let pair = |small, large| Pair { small: rate(small), large: rate(large) };
        let window = Window { plants: 1_000, disk_bytes: 70_000, memory, creates: outcome(30_000) };
        Report::new(
            Machine::this().unwrap(),
            options::parse(&[], "").unwrap(),
            64,
            [costs(100_000, 100, 0.1), costs(1_234_567, 50, 1.0)],
            vec![window],
            vec![pair(40_000, 20_000), pair(50_000, 35_000), pair(40_000, 36_000)],
            Vec::new(),
        )
        .unwrap()
    }

    #[test]
    fn the_tables_have_targets_factors_and_growth() {
        let tables = report().tables().unwrap();
        let lines = narrow_lines(&tables);
        for row in [
            "| ready after a clean stop | within 3 s | 2.00 s | met |",
            "| most memory at the default cache | at most 1,000 MB (aim: 600 MB) | 500 MB | met, and the aim |",
            "| creates/s, next to a small store | at least 0.6 (aim: 0.8) | 0.70 | met |",
            "| medians | 100,000 plants | 1,234,567 plants | factor |",
            "| creates/s | 40,000 | 35,000 | 0.70 |",
            "| bytes on disk a plant | 100 | 50 | 0.50 |",
            "| ready after SIGKILL under load, s | 0.50 | 5.00 | 10.00 |",
            "| 1,000 | 30,000 | 3.0 | 400 | 70 |",
        ] {
            assert!(lines.iter().any(|line| line == row), "{row}\nis not in\n{tables}");
        }
    }

    #[test]
    fn a_start_that_could_not_be_from_disk_is_said_to_be_none() {
        let tables = report().tables().unwrap();
        assert!(tables.contains("No start was from disk"), "{tables}");
        assert!(!tables.contains("read from disk (one start)"), "{tables}");
    }

    #[test]
    fn few_windows_stand_for_many_and_the_last_is_among_them() {
        let all: Vec<usize> = (1..=30).collect();
        let few: Vec<usize> = thinned(&all, 12).copied().collect();
        assert_eq!(few, [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]);
        assert_eq!(thinned(&all[..2], 12).count(), 2);
        assert_eq!(thinned(&all[..0], 12).count(), 0);
    }
}
