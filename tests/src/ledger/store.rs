//! The plants that a server holds.

use std::collections::BTreeMap;

use plant_domain::PlantFilter;

use crate::answer::Answer;
use crate::client::Client;
use crate::plant::{Format, NewPlant};

/// The tags of plants in a ledger.
pub const TAGS: [&str; 5] = ["Rosaceae", "Fagaceae", "木", "Rosaceae, cultivated", LONG_TAG];

/// A long text, to fill the disk.
pub(super) const LONG_TAG: &str = concat!(
    "木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木",
    "木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木",
    "木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木",
    "木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木",
    "木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木",
    "木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木木",
);

/// Searches by name: a text in many names, a single character, and a text in no name.
const NAME_PARTS: [&str; 4] = ["𐂷", "𐂷𐂷𐂷 1", "7", "rosa"];

/// The ids that are also read one by one, whether or not such plants exist.
const READ_ALONE: std::ops::Range<i64> = 0..16;

/// All plants of a store, by their ids.
pub type Plants = BTreeMap<i64, NewPlant>;

/// The plants that a server holds. Asserts that the export, the total count, the counts of tags, filtered lists and
/// single reads agree. `when` goes into the messages.
#[track_caller]
pub fn store_of(client: &Client, when: &str) -> Plants {
    let plants = plants_in(&client.export(Format::Ndjson));
    let count = client.list("limit=1").total_count();
    assert_eq!(count, Some(plants.len()), "the count of the plants {when}");
    let tags: Vec<_> = client.tag_pages("limit=3").iter().flat_map(Answer::tags).collect();
    assert_eq!(tags, counted(plants.values()), "the tags {when}");
    let of_tags = TAGS.map(|tag| (None, Some(tag)));
    let last_name = plants.values().next_back().map(|last| last.name.clone());
    let of_names = NAME_PARTS.into_iter().chain(last_name.as_deref());
    for (name, tag) in of_tags.into_iter().chain(of_names.map(|part| (Some(part), None))) {
        let filter = PlantFilter::new(name, tag.map(str::to_owned)).expect("a valid filter");
        let matches = |plant: &&NewPlant| filter.matches(&plant.name, plant.tag.as_deref());
        let mut query = "limit=1000".to_owned();
        for (parameter, value) in [("name", name), ("tag", tag)] {
            query.extend(value.map(|it| format!("&{parameter}={}", percent_encoded(it))));
        }
        let found = client.list_all(&query);
        assert!(found.iter().eq(plants.values().filter(matches)), "{filter:?} {when}");
    }
    for id in READ_ALONE {
        let answer = client.read(id);
        match plants.get(&id) {
            Some(plant) => answer.assert_new_plant(id, &plant.name, plant.tag.as_deref()),
            None => drop(answer.assert_error(404, 3002)),
        }
    }
    plants
}

/// The tags of plants with the number of plants of each, ordered by code points.
pub fn counted<'a>(plants: impl IntoIterator<Item = &'a NewPlant>) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::<String, u64>::new();
    for tag in plants.into_iter().filter_map(|plant| plant.tag.clone()) {
        *counts.entry(tag).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// The plants of an export as NDJSON.
#[track_caller]
pub fn plants_in(export: &[u8]) -> Plants {
    let rows = serde_json::Deserializer::from_slice(export).into_iter();
    rows.map(|row| NewPlant::from_json(&row.expect("a row is JSON")))
        .map(|plant| (plant.id, plant))
        .collect()
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
