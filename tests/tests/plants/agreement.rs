//! Lists, exports and reads agree, during writes of other clients and afterwards.

use std::thread;

use fastrand::Rng;
use plantd_tests::{Answer, Client, Format, NewPlant, TOKEN, TestServer, counted};

use super::export::parse;
use super::plant_all;

const TAGS: [&str; 3] = ["a", "ab", "b"];

/// Whether no writer changes the plant.
fn is_steady(plant: &NewPlant) -> bool {
    plant.id % 10 == 0
}

/// Changes plants at random, but no steady one.
fn change_plants(client: &Client) {
    let mut chance = Rng::new();
    for _ in 0..300 {
        let id = chance.i64(0..30) * 400 - 5_995;
        let plant = NewPlant::new(id, "Rosa", TAGS.get(chance.usize(..4)).copied());
        let answer = match chance.u8(..5) {
            0 => client.create_from(&plant.json()),
            1 => client.put(id, &plant.json()),
            2 => client.patch(id, &serde_json::json!({ "tag": plant.tag }).to_string()),
            3 => client.import(Format::Ndjson, "on_conflict=replace", plant.json()),
            _ => client.delete(id),
        };
        assert!(answer.status < 500, "{answer:?}");
    }
}

/// Asserts that all lists, the exports and the reads agree, and returns the plants.
#[track_caller]
fn check_agreement(client: &Client) -> Vec<NewPlant> {
    let all = client.list_all("limit=7");
    for query in ["", "limit=1", "after=3", "limit=1000&after=9223372036854775807"] {
        assert_eq!(client.list(query).total_count(), Some(all.len()), "{query}");
    }
    for query in ["name=rosa", "tag=a&name=rosa"] {
        let count = client.list(query).total_count();
        assert_eq!(count, None, "{query}: the count is not that of the filter");
    }
    let tags: Vec<_> = client.tag_pages("limit=2").iter().flat_map(Answer::tags).collect();
    assert_eq!(tags, counted(&all));
    for format in Format::ALL {
        assert_eq!(parse(format, &client.export(format)), all);
    }
    for tag in TAGS {
        let with_tag = |plant: &&NewPlant| plant.tag.as_deref() == Some(tag);
        let wanted: Vec<_> = all.iter().filter(with_tag).cloned().collect();
        assert_eq!(client.list_all(&format!("limit=3&tag={tag}")), wanted, "{tag}");
        let count = client.list(&format!("limit=1&tag={tag}&after=0")).total_count();
        assert_eq!(count, Some(wanted.len()), "{tag}");
    }
    for plant in all.iter().filter(|plant| !is_steady(plant)) {
        client.read(plant.id).assert_new_plant(plant.id, &plant.name, plant.tag.as_deref());
    }
    all
}

#[test]
fn steady_plants_are_seen_exactly_once_during_writes_and_all_reads_agree_afterwards() {
    // More plants than fit into a page.
    let plant = |number: i64| NewPlant::new(number * 10, "Rosa", Some("a"));
    let steady: Vec<_> = (-600..600).map(plant).collect();
    let mut server = TestServer::start();
    plant_all(&server.client(), &steady);
    for _ in 0..3 {
        let (address, client) = (server.address(), server.client());
        thread::scope(|scope| {
            let write = || change_plants(&Client::new(address, Some(TOKEN)));
            let writers = [(); 4].map(|()| scope.spawn(write));
            while !writers.iter().all(|writer| writer.is_finished()) {
                let exports = Format::ALL.map(|format| parse(format, &client.export(format)));
                let queries = ["limit=7", "limit=7&tag=a", "limit=7&name=ROSA", "limit=1000"];
                for seen in exports.into_iter().chain(queries.map(|query| client.list_all(query))) {
                    assert!(seen.is_sorted_by(|one, next| one.id < next.id), "{seen:?}");
                    assert_eq!(seen.into_iter().filter(is_steady).collect::<Vec<_>>(), steady);
                }
            }
        });
        let before = check_agreement(&server.client());
        server.kill();
        server.restart();
        assert_eq!(check_agreement(&server.client()), before);
    }
}
