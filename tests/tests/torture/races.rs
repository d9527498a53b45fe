//! Concurrent operations on few plants, even across kills: the history of each plant is linearizable.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::history::{self, Entry, HistoryOperation, Outcome, State};
use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{
    Answer, Client, Followed, Followers, Launch, NewPlant, TestServer, plant_body,
    replacement_body, store_of,
};

use crate::SMALL_LIMITS;

const CLIENTS: usize = 8;

/// The plants that all clients work on.
const PLANTS: i64 = 3;

const MAX_RUN_MS: u64 = 250;

type Histories = BTreeMap<i64, Vec<Entry>>;

/// The method, path and body of an operation.
fn request(id: i64, operation: &HistoryOperation) -> (&'static str, String, String) {
    let path = format!("/plants/{id}");
    match operation {
        HistoryOperation::Create(name, tag) => {
            ("POST", "/plants".to_owned(), plant_body(id, name, tag.as_deref()))
        }
        HistoryOperation::Put(name, tag) => ("PUT", path, replacement_body(name, tag.as_deref())),
        HistoryOperation::Retag(tag) => {
            ("PATCH", path, serde_json::json!({ "tag": tag }).to_string())
        }
        HistoryOperation::Delete => ("DELETE", path, String::new()),
        HistoryOperation::Read => ("GET", path, String::new()),
    }
}

fn outcome(operation: &HistoryOperation, answer: &Answer) -> Option<Outcome> {
    Some(match (operation, answer.status) {
        (HistoryOperation::Create(..), 200) | (HistoryOperation::Put(..), 201) => {
            Outcome::Made(answer.revision())
        }
        (HistoryOperation::Put(..) | HistoryOperation::Retag(_), 200) => {
            Outcome::Changed(answer.revision())
        }
        (HistoryOperation::Read, 200) => {
            let NewPlant { name, tag, .. } = NewPlant::from_json(&answer.json());
            Outcome::Seen(State { name, tag, revision: Some(answer.revision()) })
        }
        (_, 204) => Outcome::Deleted,
        (_, 400) => {
            answer.assert_error(400, 3001);
            Outcome::Taken
        }
        (_, 404) => Outcome::Missing,
        (_, 503) => return None,
        _ => panic!("{operation:?}: {answer:?}"),
    })
}

fn any_operation(chance: &mut fastrand::Rng) -> HistoryOperation {
    // Few values, so that many changes are no-ops.
    let name = ["Rosa", "Abies", "Quercus"][chance.usize(..3)].to_owned();
    let tag = chance.bool().then(|| "tag".to_owned());
    match chance.u8(..6) {
        0 => HistoryOperation::Create(name, tag),
        1 => HistoryOperation::Put(name, tag),
        2 => HistoryOperation::Retag(tag),
        3 => HistoryOperation::Delete,
        _ => HistoryOperation::Read,
    }
}

/// Sends operations until the server stops. If the last one got no answer, the caller must correct its end.
fn operate(client: &Client, clock: Instant, chance: &mut fastrand::Rng) -> Vec<(i64, Entry)> {
    let now = || u64::try_from(clock.elapsed().as_nanos()).expect("a short time");
    let mut entries = Vec::new();
    loop {
        let (id, operation) = (chance.i64(0..PLANTS), any_operation(chance));
        let (method, path, body) = request(id, &operation);
        let begun = now();
        let answer =
            client.try_send(method, &path, &[("content-type", "application/json")], &body).ok();
        let ended = now();
        let outcome = answer.as_ref().and_then(|answer| outcome(&operation, answer));
        let is_answered = outcome.is_some();
        entries.push((id, Entry { begun, ended, operation, outcome }));
        if !is_answered {
            return entries;
        }
    }
}

#[test]
fn operations_on_each_plant_are_linearizable_even_across_kills() {
    let (mut chance, histories, kills_in_each) = (chance(), times(2, 100), times(2, 4));
    let (mut operations, mut followed) = (0, Vec::new());
    for history in 0..histories {
        let launch = Launch::new();
        let compacts_early = history % 2 == 1;
        let launch = if compacts_early { launch.faults(SMALL_LIMITS) } else { launch };
        let mut server = TestServer::start_with(launch);
        let mut followers = Followers::of(&server);
        let mut history = Histories::new();
        let clock = Instant::now();
        for _ in 0..=kills_in_each {
            let entries = thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|_| {
                        let (client, mut chance) = (server.client(), chance.fork());
                        scope.spawn(move || operate(&client, clock, &mut chance))
                    })
                    .collect();
                thread::sleep(Duration::from_millis(chance.u64(0..MAX_RUN_MS)));
                server.kill();
                followers.set_servers([]);
                let clients = clients.into_iter();
                clients.flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
            });
            // An unanswered operation can only have happened before now.
            let over = u64::try_from(clock.elapsed().as_nanos()).unwrap();
            for (id, mut entry) in entries {
                if entry.outcome.is_none() {
                    entry.ended = over;
                }
                history.entry(id).or_default().push(entry);
            }
            server.restart();
            followers.set_servers([server.address()]);
            let client = server.client();
            followers.assert_have(&client, &store_of(&client, "after a kill"), "after a kill");
        }
        followed.push(followers.end());
        for (id, entries) in history {
            operations += entries.len();
            if let Err(cause) = history::check(&entries) {
                panic!("plant {id}: {cause}");
            }
        }
    }
    let followed: Followed = followed.into_iter().sum();
    Report {
        test: "races",
        promise: "Concurrent operations on a plant act as if they came one after the other",
        disturbances: format!("{} kills", histories * (kills_in_each + 1)),
        losses: format!("0 of {operations} operations contradict the others; {followed}"),
        details: format!(
            "{} histories checked for linearizability, {CLIENTS} clients",
            histories * u32::try_from(PLANTS).unwrap()
        ),
    }
    .print();
}
