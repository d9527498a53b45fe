//! Answers while a change waits for a standby that is away.

use std::thread;

use plantd_tests::{Client, newest_cursor, replacement_body, wait_until};
use test_postgres::{Cluster, fresh_schema_name};

use super::failover::{both, terminate_waiting_sessions};
use super::replica::Replica;

/// The body of an answer, if the server answers.
fn body_of(client: &Client, path: &str) -> Option<Vec<u8>> {
    let answer = client.try_send("GET", path, &[], "").ok()?;
    (answer.status == 200).then_some(answer.body)
}

#[test]
fn events_and_exports_never_show_a_change_that_a_promotion_loses() {
    let schema = fresh_schema_name();
    let mut primary = Cluster::start();
    let mut standby = primary.standby();
    primary.wait_for_commits_on(&standby);
    let [mut writer, reader] = [0; 2].map(|_| Replica::start(&both(&primary, &standby), &schema));
    let [writing, client] = [&writer, &reader].map(Replica::client);
    let events = format!("/events?after={}", newest_cursor(&client));
    let paths = [events.as_str(), "/plants/export"];
    client.put(1, &replacement_body("Rosa", None)).assert_made("Rosa", None);
    standby.stop_immediate();
    let shown = thread::scope(|scope| {
        scope.spawn(move || {
            let json = [("content-type", "application/json")];
            let body = replacement_body("Abies", None);
            let _ = writing.try_send("PUT", "/plants/1", &json, body);
        });
        let look = format!("SELECT name FROM {schema}.plants WHERE id = 1");
        wait_until("the name to be visible that only the primary has", || {
            terminate_waiting_sessions(primary.database(), &schema);
            primary.query(&look) == "Abies"
        });
        let showing = paths.map(|path| scope.spawn(|| body_of(&client, path)));
        wait_until("both answers to wait for the standby", || {
            let is_finished = showing.iter().any(|showing| showing.is_finished());
            assert!(!is_finished, "an answer did not wait for the standby");
            reader.count_waiting_sessions(primary.database()) == showing.len()
        });
        // The writer must not write the plant again after the promotion.
        writer.server.kill();
        primary.kill();
        standby.start_again();
        standby.promote();
        showing.map(|showing| showing.join().expect("the reader does not panic"))
    });
    wait_until("service to return", || reader.is_ready());
    client.read(1).assert_new_plant(1, "Rosa", None);
    for (path, shown) in paths.into_iter().zip(shown) {
        let Some(shown) = shown else { continue };
        let is_now = client.get(path).body;
        assert_eq!(String::from_utf8_lossy(&shown), String::from_utf8_lossy(&is_now), "{path}");
    }
}
