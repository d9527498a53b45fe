//! Real plants, created over the API by several clients at once, are all there after a kill.
//!
//! By hand, with other plants and more clients:
//!
//! ```sh
//! PLANTD_TESTS_CSV=plants.csv PLANTD_TESTS_CLIENTS=64 \
//!     cargo test -p plantd-tests --test real_plants
//! ```
//!
//! The file has the header `id,name,tag`; an empty tag cell is no tag.

use std::env;
use std::path::{Path, PathBuf};
use std::thread;

use plantd_tests::{Client, TOKEN, TestServer};

const DEFAULT_CLIENTS: usize = 8;

struct Row {
    id: i64,
    name: String,
    tag: Option<String>,
}

fn csv_file() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("data/plants.csv");
    env::var_os("PLANTD_TESTS_CSV").map_or_else(default, PathBuf::from)
}

fn clients() -> usize {
    let number = env::var("PLANTD_TESTS_CLIENTS").ok();
    number.map_or(DEFAULT_CLIENTS, |number| number.parse().expect("a number of clients"))
}

fn rows(file: &Path) -> Vec<Row> {
    let mut reader = csv::Reader::from_path(file)
        .unwrap_or_else(|cause| panic!("cannot read {}: {cause}", file.display()));
    assert_eq!(reader.headers().expect("a header"), vec!["id", "name", "tag"]);
    let row = |record: csv::StringRecord| Row {
        id: record[0].parse().unwrap_or_else(|_| panic!("{record:?} has no id")),
        name: record[1].to_owned(),
        tag: Some(record[2].to_owned()).filter(|tag| !tag.is_empty()),
    };
    reader.records().map(|record| row(record.expect("a record"))).collect()
}

/// Does something with every row, each client with every so many-th.
fn for_each_row(server: &TestServer, rows: &[Row], act: impl Fn(&Client, &Row) + Sync) {
    let clients = clients();
    thread::scope(|scope| {
        for number in 0..clients {
            let act = &act;
            scope.spawn(move || {
                let client = Client::new(server.address(), Some(TOKEN));
                for row in rows.iter().skip(number).step_by(clients) {
                    act(&client, row);
                }
            });
        }
    });
}

#[test]
fn every_real_plant_is_there_exactly_as_it_was_sent_after_a_kill() {
    let rows = rows(&csv_file());
    assert!(!rows.is_empty(), "there are no plants to test with");
    let mut server = TestServer::start();
    for_each_row(&server, &rows, |client, row| {
        let answer = client.create(row.id, &row.name, row.tag.as_deref());
        answer.assert_plant(&row.name, row.tag.as_deref());
    });
    server.kill();
    server.restart();
    for_each_row(&server, &rows, |client, row| {
        client.read(row.id).assert_new_plant(row.id, &row.name, row.tag.as_deref());
    });
    let last = rows.iter().map(|row| row.id).max().unwrap();
    server.client().read(last + 1).assert_error(404, 3002);
}
