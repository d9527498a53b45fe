//! Measures how long it takes to create a valid plant, create rules included.

#![forbid(unsafe_code)]

use divan::{Bencher, black_box};
use plant_domain::Plant;

fn main() {
    divan::main();
}

#[divan::bench(args = ["Rosa canina", "Rosa × damascena", "木蘭"])]
fn make_a_plant(bencher: Bencher<'_, '_>, name: &str) {
    let members = || (name.to_owned(), Some("Rosaceae".to_owned()));
    bencher
        .with_inputs(members)
        .bench_values(|(name, tag)| Plant::new(black_box(name), black_box(tag)));
}
