//! `docs/reference.md` lists what the program has.

use std::collections::BTreeMap;

use plantd_tests::{CommandHelp, Scrape};

use crate::contrib::Servers;
use crate::written::assert_written;

/// The help of each command, under a heading of its own.
fn commands() -> String {
    let commands = CommandHelp::all().into_iter().map(|CommandHelp { words, text }| {
        let name = [&["plantd".to_owned()], &words[..]].concat().join(" ");
        format!("\n### {name}\n\n```text\n{}\n```\n", text.trim_end())
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
        "\n| metric | type | labels | store | meaning |\n|---|---|---|---|---|\n{}",
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
fn the_reference_has_the_commands_and_metrics_that_the_program_writes() {
    assert_written("docs/reference.md", &["Commands", "Metrics"], |part| match part.heading() {
        "Commands" => commands(),
        _ => metrics(),
    });
}
