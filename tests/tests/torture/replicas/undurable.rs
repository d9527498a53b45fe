//! What events show of a plant whose newest change waits for a standby that is away.

use std::thread;

use plantd_tests::{Client, newest_cursor, replacement_body, wait_until};
use test_postgres::{Cluster, fresh_schema_name};

use super::failover::{both, terminate_waiting_sessions};
use super::replica::Replica;

/// The name of the plant that the standby has, and the one that only the primary has.
const NAMES: [&str; 2] = ["Rosa", "Abies"];

/// The name of the plant in the first event of a page, unless the server has no answer.
fn name_in_event(client: &Client, path: &str) -> Option<String> {
    let answer = client.try_send("GET", path, &[], "").ok()?;
    if answer.status != 200 {
        return None;
    }
    answer.json()[0]["plant"]["name"].as_str().map(str::to_owned)
}

#[test]
fn an_event_never_shows_a_change_that_a_promotion_loses() {
    let schema = fresh_schema_name();
    let mut primary = Cluster::start();
    let mut standby = primary.standby();
    primary.wait_for_commits_on(&standby);
    let [writer, reader] = [0; 2].map(|_| Replica::start(&both(&primary, &standby), &schema));
    let client = reader.client();
    let path = format!("/events?after={}&plants=true", newest_cursor(&client));
    client.put(1, &replacement_body(NAMES[0], None));
    assert_eq!(name_in_event(&client, &path).as_deref(), Some(NAMES[0]));
    standby.stop_immediate();
    thread::scope(|scope| {
        scope.spawn(|| {
            let json = [("content-type", "application/json")];
            let body = replacement_body(NAMES[1], None);
            let _ = writer.client().try_send("PUT", "/plants/1", &json, body);
        });
        let look = format!("SELECT name FROM {schema}.plants WHERE id = 1");
        wait_until("the name to be visible that only the primary has", || {
            terminate_waiting_sessions(primary.database(), &schema);
            primary.query(&look) == NAMES[1]
        });
        let showing = scope.spawn(|| name_in_event(&client, &path));
        wait_until("the page to wait for the standby", || {
            assert!(!showing.is_finished(), "the page did not wait for the standby");
            reader.waits_for_standby(primary.database())
        });
        primary.kill();
        standby.start_again();
        standby.promote();
        let shown = showing.join().expect("it asks");
        let mut now = None;
        wait_until("the plant to be read again", || {
            let answer = client.read(1);
            now = (answer.status == 200).then(|| answer.json()["name"].as_str().map(str::to_owned));
            now.is_some()
        });
        assert!(shown.is_none() || Some(&shown) == now.as_ref(), "{shown:?} was shown: {now:?}");
    });
}
