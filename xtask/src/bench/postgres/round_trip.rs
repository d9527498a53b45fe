//! `cargo xtask bench postgres-move`: many plants move from a data folder into PostgreSQL and back into a folder, by
//! import and export alone, and are the same then.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::options::{self, MoveOptions};
use super::real_plants;
use super::server::{Server, Settings};
use crate::bench::bench_folder::BenchFolder;
use crate::bench::contender::{self, Contender};
use crate::bench::load::TOKEN;
use crate::bench::machine::Machine;
use crate::bench::table::{Table, whole};
use crate::bench::transfer::{self, EXPORTED, ThereAndBack, Transfer};
use crate::bench::{interrupt, performance_document};
use crate::{cargo, tools};

const SCHEMA: &str = "moved";
/// How much of two files is compared at a time.
const BLOCK_BYTES: usize = 1 << 16;

/// What ends up in `target/bench/postgres-move.json`.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    postgres: Settings,
    options: MoveOptions,
    /// How many bytes each of the exports has, which are all the same.
    exported_bytes: u64,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Step {
    what: &'static str,
    transfer: Transfer,
}

/// Moves them, prints a table and writes the report and, at full size, the document.
pub(in crate::bench) fn run(arguments: &[String], usage: &'static str) -> anyhow::Result<()> {
    let options = options::parse_move(arguments, usage)?;
    tools::ensure(&[tools::POSTGRESQL])?;
    let workspace = cargo::workspace()?;
    let root = workspace.workspace_root.as_std_path();
    let plantd = contender::build_plantd(&workspace)?;
    let bench_folder = BenchFolder::make(&workspace)?;
    let machine = Machine::this()?;
    interrupt::listen()?;
    let server = Server::start()?;
    println!("{machine}\n{}", server.settings());
    let folder = bench_folder.temporary()?;
    let plants = folder.path().join("plants.ndjson");
    real_plants::write(root, &plants, options.plants)?;
    let on_postgres = server.contender(&plantd, SCHEMA);
    let (steps, exported_bytes) =
        move_through([&plantd, &on_postgres, &plantd], &plants, &options, folder.path())?;
    let postgres = server.settings().clone();
    let report = Report { machine, postgres, options, exported_bytes, steps };
    println!("\n{report}");
    bench_folder.write_report("postgres-move.json", &report)?;
    if report.options.is_documented() {
        performance_document::refresh(root, "postgres-move", &report.to_string())?;
    }
    Ok(())
}

/// Each server imports what the one before it has exported. Returns the steps, and how many bytes each export has.
fn move_through(
    servers: [&Contender; 3],
    plants: &Path,
    options: &MoveOptions,
    folder: &Path,
) -> anyhow::Result<(Vec<Step>, u64)> {
    let names = [
        ["import into a data folder", "export from there"],
        ["import into PostgreSQL", "export from there"],
        ["import into another data folder", "export from there"],
    ];
    let mut steps = Vec::new();
    let mut exports: Vec<PathBuf> = Vec::new();
    for ((number, contender), [import_name, export_name]) in (1..).zip(servers).zip(names) {
        interrupt::check()?;
        let own = folder.join(format!("server-{number}"));
        fs::create_dir(&own).with_context(|| format!("cannot make {}", own.display()))?;
        let source = exports.last().map_or(plants, PathBuf::as_path);
        let ThereAndBack { import, export } =
            transfer::there_and_back(contender, source, options.plants.into(), &own, TOKEN)?;
        for (what, transfer) in [(import_name, import), (export_name, export)] {
            println!("{what}: {:.0}/s", transfer.plants_per_s());
            steps.push(Step { what, transfer });
        }
        exports.push(own.join(EXPORTED));
    }
    let (first, others) = exports.split_first().context("there are no exports")?;
    for other in others {
        ensure!(
            is_same(first, other)?,
            "{} and {} differ: what came out of PostgreSQL is not what went in",
            first.display(),
            other.display()
        );
    }
    let metadata = first.metadata().with_context(|| format!("cannot see {}", first.display()))?;
    Ok((steps, metadata.len()))
}

/// Whether two files have the same bytes.
fn is_same(one: &Path, other: &Path) -> anyhow::Result<bool> {
    let open = |path: &Path| {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::Ok(BufReader::with_capacity(BLOCK_BYTES, file))
    };
    let (mut one, mut other) = (open(one)?, open(other)?);
    loop {
        let [mut block, mut other_block] = [Vec::new(), Vec::new()];
        let limit = u64::try_from(BLOCK_BYTES)?;
        one.by_ref().take(limit).read_to_end(&mut block)?;
        other.by_ref().take(limit).read_to_end(&mut other_block)?;
        if block != other_block {
            return Ok(false);
        }
        if block.is_empty() {
            return Ok(true);
        }
    }
}

impl Display for Report {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { machine, postgres, options, exported_bytes, steps } = self;
        let mut table = Table::new(&["step", "seconds", "plants/s"], 1);
        for Step { what, transfer } in steps {
            let seconds = transfer.duration_us as f64 / 1_000_000.0;
            let per_s = whole(transfer.plants_per_s());
            table.push([(*what).to_owned(), format!("{seconds:.1}"), per_s]);
        }
        write!(
            formatter,
            "{machine}. {postgres}.\n\n\
             {} plants, moved once. The three exports have {} bytes each, and are the same byte by byte.\n\n\
             {table}",
            whole(options.plants.into()),
            whole(*exported_bytes as f64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::tests::settings;
    use super::*;
    use crate::bench::table::tests::narrow_lines;

    #[test]
    fn files_are_the_same_only_if_every_byte_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let mut bytes = vec![7; 2 * BLOCK_BYTES];
        let [one, same] = [file("one", &bytes), file("same", &bytes)];
        assert!(is_same(&one, &same).unwrap());
        bytes.push(7);
        assert!(!is_same(&one, &file("longer", &bytes)).unwrap());
        bytes.pop();
        bytes[BLOCK_BYTES] = 8;
        assert!(!is_same(&one, &file("other", &bytes)).unwrap());
        assert!(!is_same(&one, &file("empty", b"")).unwrap());
        assert!(is_same(&one, &folder.path().join("none")).is_err());
    }

    #[test]
    fn a_report_has_a_row_for_each_step() {
        let transfer = Transfer { plants: 5_000, duration_us: 2_500_000 };
        let report = Report {
            machine: Machine::this().unwrap(),
            postgres: settings(),
            options: options::parse_move(&[], "").unwrap(),
            exported_bytes: 12_345,
            steps: vec![Step { what: "import into PostgreSQL", transfer }],
        };
        let text = report.to_string();
        let lines = narrow_lines(&text);
        assert!(lines.contains(&"| import into PostgreSQL | 2.5 | 2,000 |".to_owned()), "{text}");
        assert!(text.contains("have 12,345 bytes each"), "{text}");
    }
}
