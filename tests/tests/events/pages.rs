//! Pages of events, and the shape of an event.

use std::time::{SystemTime, UNIX_EPOCH};

use plantd_tests::{
    Answer, Counts, Format, NewPlant, TestServer, all_events, newest_cursor, plant_body,
    replacement_body,
};

use super::{changes, create_all, page};

const PAGE_DEFAULT_EVENTS: i64 = 100;

const PAGE_MAX_EVENTS: i64 = 1000;

#[track_caller]
fn plant_all(server: &TestServer, count: i64) {
    let plants: Vec<_> = (1..=count).map(|id| NewPlant::new(id, "Rosa", None)).collect();
    let report = server.client().import(Format::Ndjson, "", Format::Ndjson.body(&plants));
    report.assert_report(Counts { created: plants.len() as u64, ..Counts::default() });
}

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
    let server = TestServer::start();
    let client = server.client();
    client.create(2, "Rosa", Some("x")).assert_plant("Rosa", Some("x"));
    client.create(-1, "Abies", None).assert_plant("Abies", None);
    client.put(3, &replacement_body("Salix", None)).assert_made("Salix", None);
    client.put(2, &replacement_body("Rosa alba", None)).assert_plant("Rosa alba", None);
    client.patch(-1, r#"{"tag":"y"}"#).assert_plant("Abies", Some("y"));
    // None of these writes changes a plant.
    client.put(2, &replacement_body("Rosa alba", None)).assert_plant("Rosa alba", None);
    client.patch(-1, r#"{"tag":"y"}"#).assert_plant("Abies", Some("y"));
    client.patch(-1, "{}").assert_plant("Abies", Some("y"));
    client.create(2, "Rosa", None).assert_error(400, 3001);
    client.delete(9).assert_error(404, 3002);
    client.put(9, r#"{"name":""}"#).assert_error(400, 1005);

    client.delete(3).assert_no_content();
    client.create(3, "Salix", None).assert_plant("Salix", None);
    let wanted = [
        ("created", 2),
        ("created", -1),
        ("created", 3),
        ("updated", 2),
        ("updated", -1),
        ("deleted", 3),
        ("created", 3),
    ];
    assert_eq!(changes(&page(&client, "").events()), wanted);
    for limit in 1..=wanted.len() + 1 {
        let first = page(&client, &format!("limit={limit}")).events();
        assert_eq!(changes(&first), wanted[..limit.min(wanted.len())]);
        // The links lead through all events, and keep the limit.
        let all = all_events(&client, &format!("limit={limit}"));
        assert_eq!(changes(&all), wanted, "limit={limit}");
    }
}

#[test]
fn an_import_makes_an_event_for_each_plant_that_it_changes() {
    let server = TestServer::start();
    let client = server.client();
    create_all(&client, [1, 2]);
    let after = newest_cursor(&client);
    let plants = [(3, "Abies"), (1, "Rosa"), (2, "Rosa alba"), (4, "Salix")];
    let rows = Format::Ndjson.body(&plants.map(|(id, name)| NewPlant::new(id, name, None)));
    let report = client.import(Format::Ndjson, "on_conflict=replace", rows);
    assert_eq!(report.json()["created"], 2, "{report:?}");
    let events = page(&client, &format!("after={after}")).events();
    assert_eq!(changes(&events), [("created", 3), ("updated", 2), ("created", 4)]);
}

#[test]
fn a_page_has_100_events_by_default_and_at_most_1000() {
    let server = TestServer::start();
    let client = server.client();
    plant_all(&server, PAGE_MAX_EVENTS + 1);
    let ids = |answer: &Answer| answer.events().iter().map(|event| event.id).collect::<Vec<_>>();
    let first = page(&client, "");
    assert_eq!(ids(&first), (1..=PAGE_DEFAULT_EVENTS).collect::<Vec<_>>());
    let first = page(&client, &format!("limit={PAGE_MAX_EVENTS}"));
    assert_eq!(ids(&first), (1..=PAGE_MAX_EVENTS).collect::<Vec<_>>());
    let last = client.get(&first.next_events());
    assert_eq!(ids(&last), [PAGE_MAX_EVENTS + 1]);
    assert_eq!(client.get(&last.next_events()).events(), []);
}

#[test]
fn a_link_repeats_the_parameters_and_has_the_cursor_of_the_last_event() {
    let server = TestServer::start();
    let client = server.client();
    create_all(&client, 1..=5);
    let answer = page(&client, "plants=true&wait=3&limit=2");
    let link = answer.next_events();
    let (_, query) = link.split_once('?').expect("a query");
    let mut parameters: Vec<_> = query.split('&').collect();
    parameters.sort_unstable();
    let last = format!("after={}", answer.events()[1].cursor);
    assert_eq!(parameters, [&last, "limit=2", "plants=true", "wait=3"]);
    assert_eq!(changes(&client.get(&link).events()), [("created", 3), ("created", 4)]);
    // The cursor of an event leads to the next one.
    for (event, next) in page(&client, "").events().iter().zip(2..) {
        let behind = page(&client, &format!("limit=1&after={}", event.cursor));
        let wanted = if next > 5 { vec![] } else { vec![("created", next)] };
        assert_eq!(changes(&behind.events()), wanted, "{event:?}");
    }
}

#[test]
fn after_now_skips_all_events_but_not_the_next_one() {
    let server = TestServer::start();
    let client = server.client();
    create_all(&client, [1, 2]);
    let empty = page(&client, "after=now&limit=5");
    assert_eq!(empty.events(), []);
    let last = page(&client, "").events()[1].cursor.clone();
    assert_eq!(empty.next_cursor(), last);
    create_all(&client, [3]);
    assert_eq!(changes(&client.get(&empty.next_events()).events()), [("created", 3)]);
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

#[test]
fn an_event_shows_every_64_bit_id_exactly() {
    let ids = [i64::MIN, i64::MAX, 0, -1, 9_007_199_254_740_993];
    let server = TestServer::start();
    for id in ids {
        let body = plant_body(id, "Rosa", None);
        server.client().create_from(&body).assert_plant("Rosa", None);
    }
    let events = page(&server.client(), "plants=true").events();
    assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), ids);
    assert!(events.iter().all(|event| event.plant.is_some()), "{events:?}");
}

#[test]
fn head_answers_as_get_does_without_reading_the_page() {
    let server = TestServer::start();
    create_all(&server.client(), [1]);
    for query in ["", "?limit=1&plants=true", "?after=now", "?wait=1"] {
        let mut connection = server.connect();
        let of_content = ["content-length", "link"];
        connection.assert_head_is_get_without(&of_content, &format!("/events{query}"), "");
    }
}

#[test]
fn a_wrong_parameter_is_1006_and_the_message_names_it() {
    let server = TestServer::start();
    let cursor = newest_cursor(&server.client());
    let mut wrong = Vec::new();
    let numbers = ["", "-1", "+1", "x", "1.0", "01", "%201", "1s", "18446744073709551617"];
    for (name, more) in [("limit", ["0", "1001"]), ("wait", ["51", "00"])] {
        wrong
            .extend([&numbers[..], &more].concat().iter().map(|it| (name, format!("{name}={it}"))));
    }
    for value in ["", "1", "0", "yes", "True", "TRUE", "true%20"] {
        wrong.push(("plants", format!("plants={value}")));
    }
    let upper = cursor.to_uppercase() + "A";
    let (spaced, padded, cut) = (format!("%20{cursor}"), format!("0{cursor}"), &cursor[..1]);
    for value in ["", "Now", "now%20", "-", "1-", "-1", "1-g", &upper, &spaced, &padded, cut, "%ff"]
    {
        wrong.push(("after", format!("after={value}")));
    }
    for name in ["after", "limit", "wait", "plants"] {
        wrong.push((name, name.to_owned()));
    }
    wrong.push(("after", format!("after={cursor}&after={cursor}")));
    wrong.push(("limit", "limit=1&limit=1".to_owned()));
    wrong.push(("since", "since=1".to_owned()));
    wrong.push(("Last-Event-ID", format!("Last-Event-ID={cursor}")));
    for (name, query) in wrong {
        let message = page(&server.client(), &query).assert_error(400, 1006);
        assert!(message.contains(name), "{query}: {message:?} does not name {name}");
    }
}
