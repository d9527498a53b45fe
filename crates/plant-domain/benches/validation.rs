//! The create rules: the only door to a plant.

#![forbid(unsafe_code)]

use divan::{Bencher, black_box};
use plant_domain::{NewPlant, UncheckedNewPlant};

fn main() {
    divan::main();
}

const NAMES: [&str; 3] = ["Eastern white pine 123456", "Größblättrige Königskerze", "木蘭科木蘭属"];

#[divan::bench(args = NAMES)]
fn check_a_plant(bencher: Bencher<'_, '_>, name: &str) {
    let unchecked = || UncheckedNewPlant {
        id: 7,
        name: name.to_owned(),
        tag: Some("Scrophulariaceae".to_owned()),
    };
    bencher.with_inputs(unchecked).bench_values(|it| NewPlant::try_from(black_box(it)));
}
