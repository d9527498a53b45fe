//! The plants that a server holds.

use std::collections::BTreeMap;

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

/// The ids that are also read one by one, whether such plants exist or not.
const READ_ALONE: std::ops::Range<i64> = 0..16;

/// All plants of a store, by their ids.
pub type Plants = BTreeMap<i64, NewPlant>;

/// The plants that a server holds. Asserts that the export, the total count, the list of each tag and reads of
/// single plants agree. `when` goes into the messages.
#[track_caller]
pub fn store_of(client: &Client, when: &str) -> Plants {
    let plants = plants_in(&client.export(Format::Ndjson));
    let count = client.list("limit=1").total_count();
    assert_eq!(count, Some(plants.len()), "the count of the plants {when}");
    for tag in TAGS {
        let tagged = client.list_all(&format!("limit=1000&tag={}", percent_encoded(tag)));
        let has_tag = |plant: &&NewPlant| plant.tag.as_deref() == Some(tag);
        assert!(tagged.iter().eq(plants.values().filter(has_tag)), "the tag {tag} {when}");
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
