//! A follower that is disconnected during many changes.

use plantd_tests::torture::{Report, is_long};
use plantd_tests::{Event, EventKind, Format, Launch, TestServer, newest_cursor, plant_body};

/// How many plants are imported; in the long form, as many as the default number of kept events.
const PLANTS: [i64; 2] = [20_000, 1_000_000];

/// Further events, so that the number alone would not keep all.
const MORE: i64 = 5;

#[test]
fn a_follower_that_is_away_during_a_whole_import_misses_no_event() {
    let plants = PLANTS[usize::from(is_long())];
    let mut launch = Launch::new();
    if !is_long() {
        launch = launch.arguments(["--keep-events", "1000"]);
    }
    let mut server = TestServer::start_with(launch);
    let client = server.client();
    let cursor = newest_cursor(&client);
    let rows: String = (1..=plants).map(|id| plant_body(id, "Rosa", None) + "\n").collect();
    assert_eq!(client.import(Format::Ndjson, "", rows).json()["created"], plants);
    for id in 1..=MORE {
        client.delete(id).assert_no_content();
    }
    let url = format!("http://{}", server.address());
    let arguments = ["events", "--url", &url, "--after", &cursor];
    let mut follower = Launch::new().arguments(arguments).spawn();
    assert_eq!(follower.wait_for_exit().code(), Some(0), "{}", follower.stderr());
    let printed = follower.stdout();
    let event = |line| Event::from_json(&serde_json::from_str(line).expect("an event is JSON"));
    let events: Vec<Event> = printed.lines().map(event).collect();
    let seen = events.iter().map(|event| (event.kind, event.id));
    let created = (1..=plants).map(|id| (EventKind::Created, id));
    let deleted = (1..=MORE).map(|id| (EventKind::Deleted, id));
    assert!(seen.eq(created.chain(deleted)), "{} events", events.len());
    assert_eq!(server.terminate().code(), Some(0));
    Report {
        test: "away",
        promise: "An import throws no follower out that is away for its whole length",
        disturbances: format!("an import of {plants} plants"),
        losses: format!("0 of {} events missed, out of order or seen twice", events.len()),
        details: format!("{MORE} changes followed before the follower came back"),
    }
    .print();
}
