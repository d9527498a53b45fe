//! Measures how long sled alone takes for a number of plants in the layout of the store:
//! `bare_sled one-by-one|folding PLANTS FOLDER`, where `folding` compacts whole memtables. Prints one line of JSON for
//! `cargo xtask bench`.

#![forbid(unsafe_code)]

use std::env;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use plant_domain::NewPlant;
use plant_store::bare_loop;

const TAGS: i64 = 100;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let usage = "usage: bare_sled one-by-one|folding PLANTS FOLDER";
    let [way, plants, folder] = &arguments[..] else { anyhow::bail!(usage) };
    let measure = match &way[..] {
        "one-by-one" => bare_loop::one_by_one,
        "folding" => bare_loop::compacting,
        _ => anyhow::bail!(usage),
    };
    let plants: i64 = plants.parse().context("PLANTS must be a number")?;
    let new_plants = (1..=plants).map(|id| {
        let (name, tag) = (format!("Eastern white pine {id}"), format!("Family {}", id % TAGS));
        NewPlant::new(id, name, Some(tag))
    });
    let new_plants: Vec<NewPlant> = new_plants.collect::<Result<_, _>>()?;
    let plants = new_plants.len();
    let duration_us = measure(Path::new(folder), new_plants)?.as_micros();
    writeln!(io::stdout(), r#"{{"plants":{plants},"duration_us":{duration_us}}}"#)?;
    Ok(())
}
