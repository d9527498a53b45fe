//! `cargo xtask bench instructions`: the instructions of the processor that a request costs, counted by callgrind, by the code that
//! executes them.
//!
//! Seconds differ from machine to machine; instructions hardly do. Counting begins and ends while the program runs, on one
//! connection. All threads count, but not what a store does later, such as writing a memtable as a table. `memset` is left out: actix-http clears its tables of headers for each attempt
//! to read a request, with a string instruction that takes few cycles but counts for each byte.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context as _;

use super::load::{Load, Request};
use super::options::Options;
use super::program::{BARE_BUILD, Contender, build, output, plantd, serve};
use super::report::{number, publish, table};
use crate::tools;

const REQUESTS: u64 = 2_000;

/// How many plants there are to read. They are created before the counting begins.
const STORED_PLANTS: u64 = 100;

/// Code with fewer instructions a request is one row.
const SHOWN_INSTRUCTIONS: f64 = 300.0;

/// Instructions, by the code that executes them.
type Counts = BTreeMap<String, f64>;

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::VALGRIND])?;
    let programs = [plantd(options)?, build(&options.workspace, BARE_BUILD)?];
    let (mut head, mut columns) = (vec!["code".to_owned()], Vec::new());
    for (request, name) in [(Request::Read, "read"), (Request::Create, "create")] {
        for program in &programs {
            head.push(format!("{name}, {}", program.name));
            columns.push(per_request(options, program, request)?);
        }
    }
    let mut rows: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (index, counts) in columns.iter().enumerate() {
        for (code, count) in counts {
            rows.entry(code).or_insert_with(|| vec![0.0; columns.len()])[index] = *count;
        }
    }
    let (mut shown, small): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|(_, counts)| counts.iter().any(|count| *count >= SHOWN_INSTRUCTIONS));
    shown.sort_by(|(_, one), (_, other)| other[0].total_cmp(&one[0]));
    let sums = |rows: &[(&str, Vec<f64>)]| -> Vec<f64> {
        (0..columns.len()).map(|column| rows.iter().map(|(_, it)| it[column]).sum()).collect()
    };
    shown.push(("other", sums(&small)));
    shown.push(("**all**", sums(&shown)));
    let row = |(code, counts): (&str, Vec<f64>)| {
        let counts = counts.into_iter().map(|count| number(count, 0));
        [code.to_owned()].into_iter().chain(counts).collect()
    };
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    publish(options, "instructions", &table(&head, 1, shown.into_iter().map(row).collect()))
}

/// The instructions that one request costs.
fn per_request(options: &Options, program: &Contender, request: Request) -> anyhow::Result<Counts> {
    let folder = options.temporary()?;
    let file = folder.path().join("callgrind.out");
    let valgrind = tools::find(&tools::VALGRIND)?.display().to_string();
    let arguments = ["--tool=callgrind".to_owned(), "--instr-atstart=no".to_owned()];
    let command = [valgrind].into_iter().chain(arguments);
    let command = command.chain([format!("--callgrind-out-file={}", file.display())]);
    let command = command.chain(program.command.iter().cloned()).collect();
    let counted = Contender { name: program.name, command };
    let load = Load { stored: STORED_PLANTS, ..Load::new(request, Duration::MAX) };
    serve(&counted, 1, folder.path(), |programs| {
        let (program, created) = (&programs[0], AtomicU64::new(0));
        let fill = Load { request: Request::Create, ..load };
        fill.one_by_one(program.address, STORED_PLANTS, &created)?;
        let count = |whether: &str| {
            let process = program.process().to_string();
            output(Command::new("callgrind_control").args(["-i", whether, &process]))
        };
        count("on")?;
        load.one_by_one(program.address, REQUESTS, &created)?;
        count("off")
    })?;
    let text = fs::read_to_string(&file).context("callgrind has written no counts")?;
    let mut counts = by_code(&text);
    counts.values_mut().for_each(|count| *count /= REQUESTS as f64);
    Ok(counts)
}

/// Reads what callgrind has written (its manual, section "Callgrind Format Specification"): lines that set the source file, and
/// lines of a position and a count for that file. The line behind `calls=` counts what a called function executes, which stands
/// elsewhere too.
fn by_code(text: &str) -> Counts {
    let (mut counts, mut names, mut code) = (Counts::new(), HashMap::new(), String::new());
    let mut is_of_call = false;
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            is_of_call = key == "calls";
            if ["fl", "fi", "fe", "cfl", "cfi"].contains(&key) {
                // A file has its name only where it appears first.
                let (id, name) = value.split_once(' ').unwrap_or((value, ""));
                let file = names.entry(id).or_insert(name);
                if !key.starts_with('c') {
                    code = code_of(file);
                }
            }
        } else if !std::mem::take(&mut is_of_call)
            && line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            && let Some(count) = line.split(' ').nth(1).and_then(|count| count.parse::<f64>().ok())
            && code != "memset"
        {
            *counts.entry(code.clone()).or_default() += count;
        }
    }
    counts
}

/// Whose code a source file is: a crate, with the folder for those of this workspace.
fn code_of(file: &str) -> String {
    let behind = |mark: &str| file.rsplit_once(mark).map(|(_, rest)| rest);
    if let Some((name, path)) = behind("crates/").and_then(|rest| rest.split_once("/src/")) {
        let part = path.split('/').next().unwrap_or_default();
        return format!("{name}, {}", part.trim_end_matches(".rs"));
    }
    if let Some(path) = behind("/registry/src/") {
        let name = path.split('/').nth(1).unwrap_or_default();
        return name.rsplit_once('-').map_or(name, |(name, _)| name).to_owned();
    }
    let marks = [("memset", "memset"), ("jemalloc", "jemalloc"), ("/rustc/", "std of Rust")];
    let found = marks.into_iter().find(|(mark, _)| file.contains(mark));
    found.map_or("C library", |(_, name)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_code_itself_and_a_file_is_named_once() {
        let text = "events: Ir\nsummary: 100\n\nfl=(1) /x/registry/src/index/actix-web-4.18.1/src/app.rs\nfn=(1) answer\n\
                    16 4\n+2 3\ncfi=(2) crates/plant-http/src/middleware/mod.rs\ncfn=(2) log\ncalls=1 20\n* 60\n\
                    fe=(2)\n7 10\nfi=(3) sysdeps/memset-vec.S\n1 50\nfe=(1)\n9 2\n";
        let expected = [("actix-web", 9.0), ("plant-http, middleware", 10.0)];
        assert_eq!(by_code(text), expected.map(|(code, count)| (code.to_owned(), count)).into());
    }
}
