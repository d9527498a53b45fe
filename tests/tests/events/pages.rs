//! Pages of events, and the shape of an event.

use std::time::{SystemTime, UNIX_EPOCH};

use plantd_tests::{TestServer, replacement_body};

use super::{changes, create_all, page};

#[test]
fn a_page_of_an_empty_store_is_empty_and_its_link_leads_to_the_first_event() {
    let server = TestServer::start();
    let client = server.client();
    for query in ["", "after=now", "limit=1", "plants=true", "wait=0"] {
        let empty = page(&client, query);
        assert_eq!(empty.body, b"[]", "{empty:?}");
        let link = empty.next_events();
        assert_eq!(client.get(&link).events(), [], "{link}");
    }
    let links = ["", "after=now"].map(|query| page(&client, query).next_events());
    create_all(&client, [7]);
    for link in links {
        assert_eq!(changes(&client.get(&link).events()), [("created", 7)], "{link}");
    }
}

#[test]
fn every_change_is_one_event_in_order_and_a_no_op_is_none() {
    // Ids that a JavaScript number cannot represent.
    const FIRST: i64 = i64::MIN;
    const LAST: i64 = 9_007_199_254_740_993;
    let server = TestServer::start();
    let client = server.client();
    client.create(FIRST, "Rosa", Some("x")).assert_plant("Rosa", Some("x"));
    client.put(LAST, &replacement_body("Salix", None)).assert_made("Salix", None);
    client.put(FIRST, &replacement_body("Rosa alba", None)).assert_plant("Rosa alba", None);
    // None of these writes changes a plant.
    client.put(FIRST, &replacement_body("Rosa alba", None)).assert_plant("Rosa alba", None);
    client.patch(LAST, "{}").assert_plant("Salix", None);
    client.create(FIRST, "Rosa", None).assert_error(400, 3001);
    client.delete(9).assert_error(404, 3002);
    client.put(9, r#"{"name":""}"#).assert_error(400, 1005);

    let now = page(&client, "after=now&limit=5");
    assert_eq!(now.events(), []);
    client.delete(LAST).assert_no_content();
    let all = page(&client, "").events();
    let wanted = [("created", FIRST), ("created", LAST), ("updated", FIRST), ("deleted", LAST)];
    assert_eq!(changes(&all), wanted);
    // The cursor of each event leads to the next one.
    for place in 0..wanted.len() {
        let behind = page(&client, &format!("after={}", all[place].cursor)).events();
        assert_eq!(behind, all[place + 1..]);
    }
    assert_eq!(client.get(&now.next_events()).events(), all[3..]);
}

#[test]
fn the_time_of_an_event_is_that_of_its_change_in_utc_with_milliseconds() {
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let server = TestServer::start();
    let begun = seconds();
    create_all(&server.client(), [1]);
    let ended = seconds();
    let event = page(&server.client(), "").events().remove(0);
    let shape: String =
        event.at.chars().map(|it| if it.is_ascii_digit() { '0' } else { it }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{event:?}");
    let at: jiff::Timestamp = event.at.parse().expect("a time");
    let at = u64::try_from(at.as_second()).expect("after 1970");
    assert!((begun..=ended).contains(&at), "{begun} {event:?} {ended}");
}

#[test]
fn an_event_shows_the_current_plant_and_nothing_of_a_deleted_one() {
    let server = TestServer::start();
    let client = server.client();
    client.create(1, "Rosa", Some("x")).assert_plant("Rosa", Some("x"));
    client.create(2, "Abies", None).assert_plant("Abies", None);
    client.patch(1, r#"{"name":"Rosa alba","tag":null}"#).assert_plant("Rosa alba", None);
    client.delete(2).assert_no_content();
    let shown = |query: &str| {
        let events = page(&client, query).events();
        events
            .into_iter()
            .map(|event| (event.kind.name(), event.id, event.plant))
            .collect::<Vec<_>>()
    };
    let plant = |name: &str, tag: Option<&str>| Some((name.to_owned(), tag.map(str::to_owned)));
    let events = |rosa: Option<_>, abies: Option<_>| {
        [("created", 1), ("created", 2), ("updated", 1), ("deleted", 2)]
            .map(|(kind, id)| (kind, id, if id == 1 { rosa.clone() } else { abies.clone() }))
            .to_vec()
    };
    assert_eq!(shown("plants=true"), events(plant("Rosa alba", None), None));
    assert_eq!(shown("plants=false"), events(None, None));
    assert_eq!(shown(""), events(None, None));
    // The event of the deletion shows the plant that has the id now.
    client.create(2, "Salix", Some("z")).assert_plant("Salix", Some("z"));
    let all = events(plant("Rosa alba", None), plant("Salix", Some("z")));
    assert_eq!(shown("plants=true")[..4], all);
}
