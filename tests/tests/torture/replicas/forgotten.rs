//! A server that looks for the outcome of a commit whose events are already forgotten.

use std::sync::atomic::Ordering;
use std::thread;

use plantd_tests::{Launch, TestServer, plant_body, wait_until};
use test_postgres::fresh_schema_name;

use super::proxy::{Network, Proxy};

/// Has all events but those of the newest block forgotten soon.
const KEEP_EVENTS: &str = "1";

#[test]
fn a_create_whose_events_are_forgotten_before_its_outcome_is_known_is_not_called_taken() {
    let cluster = test_postgres::Cluster::start();
    let (proxy, schema) = (Proxy::before(cluster.port()), fresh_schema_name());
    let start = |url: &str| {
        let launch = Launch::new().keep_only_events(KEEP_EVENTS);
        TestServer::start_with(launch.postgres(url, &schema))
    };
    let (cut_off, other) = (start(&proxy.url()), start(&cluster.url()));
    let (client, other_client) = (cut_off.client(), other.client());
    let answer = thread::scope(|scope| {
        proxy.control.loses_answer.store(true, Ordering::Relaxed);
        let creating = scope.spawn(|| client.create_from(&plant_body(1, "Rosa", None)));
        let (look, mut id) = (format!("SELECT count(*) FROM {schema}.plants WHERE id = 1"), 1);
        wait_until("the commit", || cluster.query(&look) == "1");
        assert!(!proxy.control.loses_answer.load(Ordering::Relaxed), "the proxy saw no commit");
        let block = cluster.query(&format!("SELECT max(block) FROM {schema}.events"));
        let forgotten = format!("SELECT forgotten_to >= {block} FROM {schema}.log");
        wait_until("its events to be forgotten", || {
            id += 1;
            other_client.create(id, "Abies", None).assert_plant("Abies", None);
            cluster.query(&forgotten) == "t"
        });
        proxy.control.set_network(Network::Open);
        creating.join().expect("the create is answered")
    });
    if answer.status != 200 {
        answer.assert_error(503, 5002);
    }
    client.read(1).assert_new_plant(1, "Rosa", None);
}
