//! `docs/reference.md` lists what the program has.

use std::collections::BTreeMap;
use std::{env, fs};

use plantd_tests::{CommandHelp, Document, Scrape, repository};

use crate::contrib::Servers;

const REFERENCE: &str = "docs/reference.md";

/// The variable that asks for a new document instead of a comparison.
const WRITE: &str = "PLANTD_WRITE_REFERENCE";

/// The help of each command, under a heading of its own.
fn commands() -> String {
    let commands = CommandHelp::all().into_iter().map(|CommandHelp { words, text }| {
        let name = [&["plantd".to_owned()], &words[..]].concat().join(" ");
        format!("### {name}\n\n```text\n{}\n```\n\n", text.trim_end())
    });
    commands.collect()
}

/// A table of the metrics of servers on each store.
fn metrics() -> String {
    let servers = Servers::start();
    let scrapes = servers.clients().map(|(store, client)| (store, Scrape::of(&client)));
    let mut metrics = BTreeMap::new();
    for (store, scrape) in &scrapes {
        for (name, (kind, help)) in scrape.declared() {
            let labels = scrape.labels_of(name).into_iter().collect::<Vec<_>>().join(", ");
            metrics.entry(name).or_insert((kind, labels, help, Vec::new())).3.push(*store);
        }
    }
    let rows = metrics.into_iter().map(|(name, (kind, labels, help, stores))| {
        let stores =
            if stores.len() == scrapes.len() { "both".to_owned() } else { stores.concat() };
        format!("| `{name}` | {kind} | {labels} | {stores} | {help} |\n")
    });
    format!(
        "| metric | type | labels | store | meaning |\n|---|---|---|---|---|\n{}\n",
        rows.collect::<String>()
    )
}

/// The width of a terminal for which every help is made.
const MAX_COLUMNS: usize = 80;

#[test]
fn no_line_of_a_help_is_wider_than_80_columns() {
    for CommandHelp { words, text } in CommandHelp::all() {
        for line in text.lines() {
            assert!(line.chars().count() <= MAX_COLUMNS, "plantd {}: {line}", words.join(" "));
        }
    }
}

#[test]
fn the_reference_lists_the_commands_and_metrics_of_the_program() {
    let mut text = String::new();
    for part in Document::read(REFERENCE).parts() {
        match part.heading() {
            "Commands" => text.push_str(&format!("\n## Commands\n\n{}", commands())),
            "Metrics" => text.push_str(&format!("## Metrics\n\n{}", metrics())),
            heading if heading.starts_with('#') => {
                text.push_str(&format!("{heading}\n{}", part.text()))
            }
            heading => text.push_str(&format!("## {heading}\n{}", part.text())),
        }
    }
    if env::var_os(WRITE).is_some() {
        fs::write(repository(REFERENCE), &text).expect("it is written");
    }
    let is_same = fs::read_to_string(repository(REFERENCE)).expect("it is there") == text;
    assert!(
        is_same,
        "{REFERENCE} is stale: set {WRITE} in the environment and run this test again"
    );
}
