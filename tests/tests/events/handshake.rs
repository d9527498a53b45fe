//! Copies of the store that are made while clients write, and kept up to date by events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use plantd_tests::torture::SetOnDrop;
use plantd_tests::{
    Answer, Client, Format, NewPlant, Plants, TestServer, all_events, newest_cursor, plants_in,
    replacement_body, store_of, wait_until,
};

/// Plants that exist before the copies, so that a read takes a while.
const PLANTS: i64 = 3_000;

/// How many copies are made of each kind. A cursor taken too late loses only the events of an instant, so a single
/// copy would rarely show that.
const COPIES: usize = 20;

const WRITERS: usize = 3;

/// A copy of the store at some moment after `cursor`.
struct PlantCopy {
    cursor: String,
    plants: Plants,
}

impl PlantCopy {
    #[track_caller]
    fn by_export(client: &Client) -> Self {
        let answer = client.get("/plants/export");
        Self { cursor: answer.events_after(), plants: plants_in(&answer.body) }
    }

    #[track_caller]
    fn by_list(client: &Client) -> Self {
        let pages = client.list_pages("limit=1000");
        let plants = pages.iter().flat_map(Answer::plants).map(|plant| (plant.id, plant));
        Self { cursor: pages[0].events_after(), plants: plants.collect() }
    }
}

/// Changes each plant at most once, until `is_over`: no later event may hide that a copy has missed one.
fn write(client: &Client, numbers: impl Iterator<Item = i64>, is_over: &AtomicBool) {
    for number in numbers.take_while(|_| !is_over.load(Ordering::Relaxed)) {
        // Reads pass the first ids early and the last ids late.
        client.create(-number, "Rosa", Some("x")).assert_plant("Rosa", Some("x"));
        client.create(PLANTS + number, "Rosa", None).assert_plant("Rosa", None);
        if number < PLANTS / 2 {
            client.put(number, &replacement_body("Abies", None)).assert_plant("Abies", None);
            client.delete(PLANTS - number).assert_no_content();
        }
    }
}

#[test]
fn a_copy_made_while_clients_write_equals_the_store_once_it_has_followed_the_events() {
    let server = TestServer::start();
    let client = server.client();
    let plants: Vec<_> = (1..=PLANTS).map(|id| NewPlant::new(id, "Salix", None)).collect();
    let report = client.import(Format::Ndjson, "", Format::Ndjson.body(&plants));
    assert_eq!(report.json()["created"], PLANTS);
    let is_over = AtomicBool::new(false);
    let copies = thread::scope(|scope| {
        for numbers in (0..WRITERS).map(|first| (1..).skip(first).step_by(WRITERS)) {
            let (client, is_over) = (server.client(), &is_over);
            scope.spawn(move || write(&client, numbers, is_over));
        }
        let _over = SetOnDrop(&is_over);
        let mut copies = Vec::new();
        for _ in 0..COPIES {
            copies.extend([PlantCopy::by_export, PlantCopy::by_list].map(|copy| copy(&client)));
            let last = newest_cursor(&client);
            wait_until("the clients to go on", || newest_cursor(&client) != last);
        }
        copies
    });
    let store = store_of(&client, "at the end");
    for PlantCopy { cursor, mut plants } in copies {
        assert_ne!(plants, store, "the clients did not write");
        let events = all_events(&client, &format!("after={cursor}&plants=true&limit=1000"));
        events.iter().for_each(|event| event.apply_to(&mut plants));
        assert_eq!(plants, store);
    }
}
