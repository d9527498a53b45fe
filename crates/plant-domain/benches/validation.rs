//! The create rules: the only door to a plant.

#![forbid(unsafe_code)]

use divan::{Bencher, black_box};
use plant_domain::NewPlant;

fn main() {
    divan::main();
}

const NAMES: [&str; 3] = ["Eastern white pine 123456", "Größblättrige Königskerze", "木蘭科木蘭属"];

#[divan::bench(args = NAMES)]
fn check_a_plant(bencher: Bencher<'_, '_>, name: &str) {
    let texts = || (name.to_owned(), Some("Scrophulariaceae".to_owned()));
    bencher.with_inputs(texts).bench_values(|(name, tag)| NewPlant::new(7, black_box(name), tag));
}
