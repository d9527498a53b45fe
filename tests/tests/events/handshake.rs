//! A copy of the store that is made while clients write, and kept up to date by events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use plantd_tests::torture::SetOnDrop;
use plantd_tests::{Client, Event, Format, NewPlant, TestServer, replacement_body, wait_until};

use super::{cursor_of, now, page};

/// Plants that exist before the copies are made, so that a read takes a while.
const PLANTS: i64 = 3_000;

/// How many copies are made of each kind: a cursor that is taken too late misses few events.
const COPIES: usize = 20;

/// How many clients write.
const WRITERS: usize = 3;

/// A copy of the store at some moment after `cursor`.
struct Copy {
    cursor: String,
    plants: BTreeMap<i64, (String, Option<String>)>,
}

impl Copy {
    fn new(cursor: Option<&str>, plants: Vec<NewPlant>) -> Self {
        let plants = plants.into_iter().map(|plant| (plant.id, (plant.name, plant.tag))).collect();
        Self { cursor: cursor.expect("X-Events-After").to_owned(), plants }
    }

    /// A copy from an export.
    #[track_caller]
    fn by_export(client: &Client) -> Self {
        let accept = [("accept", Format::Ndjson.media_type())];
        let answer = client.send("GET", "/plants/export", &accept, "");
        let text = str::from_utf8(&answer.body).expect("UTF-8");
        let plant = |line| NewPlant::from_json(&serde_json::from_str(line).expect("JSON"));
        Self::new(answer.header("x-events-after"), text.lines().map(plant).collect())
    }

    /// A copy from all pages of the list.
    #[track_caller]
    fn by_list(client: &Client) -> Self {
        let pages = client.list_pages("limit=1000");
        let plants = pages.iter().flat_map(|page| page.plants()).collect();
        Self::new(pages[0].header("x-events-after"), plants)
    }

    /// Makes the plant of an event what it is now.
    fn apply(&mut self, event: Event) {
        match event.plant {
            Some(plant) => self.plants.insert(event.id, plant),
            None => self.plants.remove(&event.id),
        };
    }
}

/// Changes plants until it is told to end, each one once: no later event makes up for one that a copy has missed.
fn write(client: &Client, numbers: impl Iterator<Item = i64>, is_over: &AtomicBool) {
    for number in numbers.take_while(|_| !is_over.load(Ordering::Relaxed)) {
        // A read has passed the first plants of the store early, and comes to the last ones late.
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
    let mut copies = thread::scope(|scope| {
        for numbers in (0..WRITERS).map(|first| (1..).skip(first).step_by(WRITERS)) {
            let (client, is_over) = (server.client(), &is_over);
            scope.spawn(move || write(&client, numbers, is_over));
        }
        let _over = SetOnDrop(&is_over);
        let mut copies = Vec::new();
        for _ in 0..COPIES {
            copies.extend([Copy::by_export, Copy::by_list].map(|copy| copy(&client)));
            let last = now(&client);
            wait_until("the clients to go on", || now(&client) != last);
        }
        copies
    });
    let store: BTreeMap<_, _> =
        client.list_all("limit=1000").into_iter().map(|it| (it.id, (it.name, it.tag))).collect();
    for copy in &mut copies {
        assert_ne!(copy.plants, store, "the clients did not write");
        let mut query = format!("after={}&plants=true&limit=7", copy.cursor);
        loop {
            let answer = page(&client, &query);
            let events = answer.events();
            if events.is_empty() {
                break;
            }
            events.into_iter().for_each(|event| copy.apply(event));
            query = format!("after={}&plants=true&limit=1000", cursor_of(&answer.next_events()));
        }
        assert_eq!(copy.plants, store);
    }
}

#[test]
fn lists_and_exports_name_the_cursor_from_which_to_follow() {
    let server = TestServer::start();
    let client = server.client();
    for id in 0..3 {
        let cursor = now(&client);
        for path in ["/plants", "/plants?limit=1", "/plants?tag=x", "/plants/export"] {
            let answer = client.get(path);
            assert_eq!(answer.header("x-events-after"), Some(cursor.as_str()), "{path}");
        }
        super::create_all(&client, [id]);
        let events = page(&client, &format!("after={cursor}")).events();
        assert_eq!(super::changes(&events), [("created", id)]);
    }
}
