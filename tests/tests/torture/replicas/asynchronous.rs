//! A primary whose commits do not wait for its standby. The standby takes over without the newest changes.

use std::ops::Range;

use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{Client, all_events, assert_cursor_refused, newest_cursor, wait_until};
use test_postgres::{Cluster, fresh_schema_name};

use super::failover::both;
use super::replica::Replica;
use crate::webhooks::Receiver;

/// How many plants of each round the standby has.
const KEPT: i64 = 5;

/// How many plants the standby lacks. A promoted standby skips up to 32 numbers, so fewer lost plants would prove
/// nothing: none of their numbers would be used again.
const LOST: i64 = 50;

/// How many plants are created after the promotion, with numbers of the lost ones.
const LATER: i64 = 60;

/// Creates plants one by one, and returns the cursor after each.
fn create(client: &Client, ids: Range<i64>) -> Vec<String> {
    let cursors = ids.map(|id| {
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
        newest_cursor(client)
    });
    cursors.collect()
}

#[test]
fn a_cursor_of_changes_that_a_failover_has_lost_is_refused() {
    let failovers = times(1, 50);
    let (schema, mut refused) = (fresh_schema_name(), 0);
    let mut primary = Cluster::start();
    let mut replica = Replica::start(&primary.tcp_url(), &schema);
    let webhooks = replica.server.data().join("webhooks.json");
    let receiver = Receiver::start("copy", &webhooks, false, &mut chance());
    receiver.load_from(replica.client());
    for round in 0..i64::from(failovers) {
        let first = round * (KEPT + LOST + LATER);
        let (lost, later) = (first + KEPT, first + KEPT + LOST);
        let mut standby = primary.standby();
        replica.kill(primary.database());
        replica.restart(&both(&primary, &standby), &schema);
        let before = create(&replica.client(), first..lost);
        let has_it = format!("SELECT count(*) FROM {schema}.plants WHERE id = {}", lost - 1);
        wait_until("the standby to have the first plants", || {
            standby.database().try_query(&has_it).is_ok_and(|count| count == "1")
        });
        standby.stop_immediate();
        let after = create(&replica.client(), lost..later);
        let kept = before.last().expect("the standby has plants");
        let events = all_events(&replica.client(), &format!("after={kept}"));
        assert_eq!(events.len(), after.len(), "the events that are lost were shown");
        receiver.load_from(replica.client());
        let losses = receiver.losses_of_exact_copy(&replica.client());
        primary.kill();
        standby.start_again();
        standby.promote();
        let client = replica.client();
        wait_until("service to return", || client.get("/readyz").status == 200);
        let assert_refused =
            || after.iter().for_each(|cursor| assert_cursor_refused(&client, cursor));
        assert_refused();
        let begin = newest_cursor(&client);
        create(&client, later..later + LATER);
        assert_refused();
        refused += after.len();
        let events = all_events(&client, &format!("after={begin}"));
        let ids = events.iter().map(|event| event.id);
        assert!(ids.eq(later..later + LATER), "a new cursor goes on");
        assert_eq!(receiver.losses_of_exact_copy(&client), losses + 1);
        primary = standby;
    }
    Report {
        test: "replicas",
        promise: "After a failover that has lost changes, no follower goes on as if nothing had happened",
        disturbances: format!("{failovers} primaries killed and standbys promoted that lacked changes"),
        losses: format!("0 of {refused} cursors of lost changes were taken"),
        details: "each was refused with 410 Gone, also after other changes; the receiver of a webhook was told each time".to_owned(),
    }
    .print();
}
