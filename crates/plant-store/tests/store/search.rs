//! The search index on disk, compared with a scan of all plants.

use std::collections::BTreeMap;
use std::iter;

use fastrand::Rng;
use plant_domain::{NewPlant, PlantFilter, PlantId};
use plant_store::{
    OnConflict, Page, PagePlace, PageRequest, PlantRepository as _, Preconditions, SledConfig,
    SledInspection, SledRepository,
};
use tempfile::TempDir;

/// A database in which every filter uses the index.
fn config(folder: &TempDir) -> SledConfig {
    let mut config = SledConfig::new(folder.path().join("plants"));
    config.plants_scanned_first = 1;
    config
}

/// Imports plants, replaces and deletes some, and compares what filters find with a scan, before and after a restart.
async fn check_searches(
    config: &SledConfig,
    mut new_plant: impl FnMut(&mut Rng, i64) -> NewPlant,
    mut filter: impl FnMut(&mut Rng, &NewPlant) -> PlantFilter,
) {
    const PLANTS: i64 = 2_500;
    let mut random = Rng::with_seed(7);
    let (mut plants, mut found_in_all) = (BTreeMap::new(), 0);
    let mut repository = SledRepository::open(config).expect("opens");
    for round in 0..5 {
        let ids = (0..PLANTS).filter(|id| round == 0 || id % 5 == round);
        let rows: Vec<NewPlant> = ids.map(|id| new_plant(&mut random, id)).collect();
        plants.extend(rows.iter().map(|row| (row.id(), row.clone())));
        repository.import(rows, OnConflict::Replace, None).await.expect("imports");
        for _ in 0..200 {
            let id = PlantId::from(random.i64(0..PLANTS));
            let deleted = repository.delete(id, Preconditions::default()).await;
            assert_eq!(deleted.is_ok(), plants.remove(&id).is_some());
        }
        for place in 0..40 {
            if place == 20 {
                drop(repository);
                repository = SledRepository::open(config).expect("opens");
            }
            let of_plant = plants.values().nth(random.usize(..plants.len())).expect("a plant");
            let filter = filter(&mut random, of_plant);
            let limit = random.usize(1..100);
            let border = of_plant.id().get();
            let after = PlantId::from(border - random.i64(0..1_500));
            let before = PlantId::from(border + random.i64(0..1_500));
            let ids =
                plants.iter().filter(|(_, it)| filter.matches(it.plant().name(), it.plant().tag()));
            let ids: Vec<PlantId> = ids.map(|(id, _)| *id).collect();
            let later = ids.iter().filter(|id| **id > after).take(limit).copied().collect();
            let mut earlier: Vec<PlantId> =
                ids.iter().rev().filter(|id| **id < before).take(limit).copied().collect();
            earlier.reverse();
            let expected: [(PagePlace, Vec<PlantId>); 2] =
                [(PagePlace::After(after), later), (PagePlace::Before(before), earlier)];
            let mut page = Page::default();
            for (place, expected) in expected {
                let request = PageRequest { filter: filter.clone(), place, limit };
                page = repository.list(request.clone()).await.expect("reads");
                let found = page.plants().map(|(plant, _)| plant.id);
                assert_eq!(found.collect::<Vec<_>>(), expected, "{request:?}");
            }
            found_in_all += page.len();
        }
    }
    assert!(found_in_all > 100, "{found_in_all} plants were found");
    drop(repository);
    let verification = SledInspection::open(config).expect("opens").verify(&|_| ()).expect("reads");
    assert_eq!(verification.disagreements, Vec::<String>::new());
}

/// A random part of a text, with at most `most` characters.
fn part_of(random: &mut Rng, text: &str, most: usize) -> String {
    let begin = random.usize(..text.chars().count());
    text.chars().skip(begin).take(random.usize(1..=most)).collect()
}

#[tokio::test]
async fn searches_of_similar_names_find_exactly_the_matches() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(&folder);
    config.changes_in_memory = 1_500;
    let text = |random: &mut Rng, most| -> String {
        (0..random.usize(1..=most))
            .map(|_| random.choice(['a', 'b', 'C', ' ', '×']).expect("one"))
            .collect()
    };
    let new_plant = |random: &mut Rng, id| {
        let tag = random.choice([None, Some("R"), Some("RR")]).expect("one").map(str::to_owned);
        let name = format!("a{}", text(random, 6));
        NewPlant::new(id, name, tag).expect("valid")
    };
    check_searches(&config, new_plant, |random, of_plant| {
        let name = text(random, 4);
        let name = random.choice([None, Some(&*name)]).expect("one");
        let is_tagged = name.is_none() || random.bool();
        let tag = of_plant.plant().tag().filter(|_| is_tagged).map(str::to_owned);
        PlantFilter::new(name, tag).expect("valid")
    })
    .await;
}

/// Names with so many different grams that the index of a table has several chunks.
#[tokio::test]
async fn searches_of_names_with_any_characters_find_exactly_the_matches() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(&folder);
    let new_plant = |random: &mut Rng, id| {
        let characters = iter::repeat_with(|| random.char(..)).filter(|it| !it.is_control());
        let name: String = characters.take(255).collect();
        NewPlant::new(id, name, None).expect("valid")
    };
    check_searches(&config, new_plant, |random, of_plant| {
        PlantFilter::new(Some(&part_of(random, of_plant.plant().name(), 5)), None).expect("valid")
    })
    .await;
}

/// As many terms begin with the same letter as there are plants.
#[tokio::test]
async fn a_search_that_reads_too_much_of_the_index_ends_its_page_early_and_continues_on_the_next() {
    const PLANTS: i64 = 60_000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(&folder);
    config.changes_in_memory = 20_000;
    let mut repository = SledRepository::open(&config).expect("opens");
    let mut random = Rng::with_seed(7);
    let mut new_plant = |id| {
        let mut letters = || random.char('\u{4e00}'..='\u{9fff}');
        let other = iter::repeat_with(|| format!("a{}{}", letters(), letters()));
        let name = if id % 3 == 0 { "qrs".to_owned() } else { other.take(10).collect() };
        NewPlant::new(id, name, (id % 3 == 0).then(|| "T".to_owned())).expect("valid")
    };
    let plants = (0..PLANTS).map(&mut new_plant).collect();
    repository.import(plants, OnConflict::Error, None).await.expect("imports");
    drop(repository);
    repository = SledRepository::open(&config).expect("opens");
    let filter = PlantFilter::new(Some("a"), Some("T".to_owned())).expect("valid");
    let mut request = PageRequest { filter, place: PagePlace::First, limit: 10 };
    let mut pages = 0;
    loop {
        let page = repository.list(request.clone()).await.expect("reads");
        assert!(page.is_empty(), "no plant matches");
        pages += 1;
        assert!(pages < 20, "pages hardly get further");
        let Some(next) = page.next else { break };
        let before = std::mem::replace(&mut request.place, PagePlace::After(next));
        assert!(
            matches!(before, PagePlace::First)
                || matches!(before, PagePlace::After(id) if id < next),
            "each page gets further"
        );
    }
    assert!(pages > 1, "the work for a page is bounded");
}
