//! The steps of a commit, from plants to a group on the disk.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicI64, Ordering};

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use plant_domain::NewPlant;
use plant_store::{OnConflict, PlantRepository, SledConfig, SledRepository, benches};

const GROUPS: [usize; 3] = [1, 64, 1024];

fn main() {
    divan::main();
}

fn new_plant(id: i64) -> NewPlant {
    let (name, tag) = (format!("Eastern white pine {id}"), format!("Family {}", id % 100));
    NewPlant::new(id, name, Some(tag)).expect("valid")
}

fn new_plants(first: i64, count: usize) -> Vec<NewPlant> {
    (first..).take(count).map(new_plant).collect()
}

#[divan::bench]
fn encode_a_record(bencher: Bencher<'_, '_>) {
    let new_plant = new_plant(7);
    bencher.bench(|| benches::encode_record(black_box(&new_plant)).expect("encodes"));
}

#[divan::bench(args = GROUPS)]
fn encode_a_group_for_the_journal(bencher: Bencher<'_, '_>, plants: usize) {
    let new_plants = new_plants(0, plants);
    bencher
        .counter(ItemsCount::new(plants))
        .bench(|| benches::encode_group(black_box(&new_plants)).expect("encodes"));
}

#[divan::bench(args = GROUPS)]
fn show_a_group_to_readers(bencher: Bencher<'_, '_>, plants: usize) {
    let new_plants = new_plants(0, plants);
    bencher
        .counter(ItemsCount::new(plants))
        .bench(|| benches::show_group(black_box(&new_plants)).expect("applies"));
}

/// The whole commit, with the sync of the disk.
#[divan::bench(args = GROUPS, max_time = 2)]
fn commit_a_group(bencher: Bencher<'_, '_>, plants: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let config = SledConfig::new(folder.path().join("plants"));
    let repository = SledRepository::open(&config).expect("opens");
    let next = AtomicI64::new(0);
    bencher
        .counter(ItemsCount::new(plants))
        .with_inputs(|| {
            let count = i64::try_from(plants).expect("small");
            new_plants(next.fetch_add(count, Ordering::Relaxed), plants)
        })
        .bench_values(|plants| {
            runtime.block_on(repository.import(plants, OnConflict::Error)).expect("imports")
        });
}
