//! Which events are kept, and which cursors are refused.

use plantd_tests::{
    EventStream, Launch, TestServer, all_events, assert_cursor_refused, newest_cursor,
    store_is_on_disk, wait_until,
};

use super::{changes, create_all, page};

#[test]
fn a_cursor_of_another_store_or_ahead_of_the_store_is_refused() {
    let [server, other] = [(); 2].map(|()| TestServer::start());
    // Even a cursor before all events, and one whose number this store has too.
    let mut cursors = vec![newest_cursor(&other.client())];
    create_all(&server.client(), 1..=3);
    create_all(&other.client(), 1..=3);
    cursors.extend(all_events(&other.client(), "").into_iter().map(|event| event.cursor));
    for cursor in &cursors {
        assert!(page(&other.client(), &format!("after={cursor}")).status == 200, "{cursor}");
    }
    let newest = newest_cursor(&server.client());
    let (number, log) = newest.split_once('-').expect("two parts");
    cursors.extend([format!("1000000000000-{log}"), format!("{}-{log}", u64::MAX)]);
    // A cursor of no log at all.
    cursors.push(format!("{number}-0"));
    for cursor in cursors {
        assert_cursor_refused(&server.client(), &cursor);
    }
}

#[test]
fn only_the_newest_events_are_kept_and_a_cursor_before_them_is_refused() {
    let arguments = ["--keep-events", "3", "--keep-events-for", "0s"];
    let mut server = TestServer::start_with(Launch::new().arguments(arguments));
    let client = server.client();
    let before_all = newest_cursor(&client);
    create_all(&client, [1]);
    let first = newest_cursor(&client);
    create_all(&client, 2..=10);
    // PostgreSQL forgets once a second.
    wait_until("old events to be forgotten", || page(&client, "").events().len() == 3);
    let kept = page(&client, "").events();
    assert_eq!(changes(&kept), [("created", 8), ("created", 9), ("created", 10)]);
    if store_is_on_disk("the server itself still remembers its newest events") {
        for cursor in [&before_all, &first] {
            assert_cursor_refused(&server.client(), cursor);
        }
    }
    assert_eq!(server.terminate().code(), Some(0));
    server.restart();
    for cursor in [&before_all, &first] {
        assert_cursor_refused(&server.client(), cursor);
    }
    // The stream begins with the oldest event that is kept.
    assert_eq!(EventStream::open(server.connect(), "").next_events(3), kept);
    let behind = page(&server.client(), &format!("after={}", kept[0].cursor)).events();
    assert_eq!(behind, kept[1..]);
}

#[test]
fn a_page_of_the_oldest_events_is_never_refused_while_events_are_forgotten() {
    let arguments = ["--keep-events", "3", "--keep-events-for", "0s"];
    let server = TestServer::start_with(Launch::new().arguments(arguments));
    let client = server.client();
    create_all(&client, [0]);
    let (mut id, mut times_forgotten, mut oldest) = (0, 0, 0);
    wait_until("events to be forgotten several times", || {
        id += 1;
        create_all(&client, [id]);
        // In PostgreSQL, forgetting happens at any moment between or during these reads.
        for _ in 0..20 {
            let events = page(&client, "").events();
            assert!(events.is_sorted_by_key(|event| event.id), "{events:?}");
            times_forgotten += usize::from(events[0].id > oldest);
            oldest = oldest.max(events[0].id);
        }
        times_forgotten >= 8
    });
}

#[test]
fn young_events_are_kept_however_many_there_are() {
    let arguments = ["--keep-events", "1", "--keep-events-for", "1h"];
    let server = TestServer::start_with(Launch::new().arguments(arguments));
    create_all(&server.client(), 1..=20);
    let kept = all_events(&server.client(), "");
    assert_eq!(kept.len(), 20, "{kept:?}");

    // With only the age changed, all events but one are forgotten.
    let mut server = server;
    assert_eq!(server.terminate().code(), Some(0));
    let arguments = ["--keep-events", "1", "--keep-events-for", "0s"];
    server.restart_with(Launch::new().arguments(arguments));
    create_all(&server.client(), [21]);
    wait_until("old events to be forgotten", || page(&server.client(), "").events().len() == 1);
    assert_eq!(changes(&page(&server.client(), "").events()), [("created", 21)]);
}
