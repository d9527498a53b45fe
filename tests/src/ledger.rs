//! What clients have written, and what was acknowledged of it: what a store must hold whatever has
//! happened to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use fastrand::Rng;
use serde_json::json;

use crate::client::Client;
use crate::plant::{Format, NewPlant, replacement_body};
use crate::server::TestServer;

/// The tags that plants in a ledger have.
pub const TAGS: [&str; 4] = ["Rosaceae", "Fagaceae", "木", "Rosaceae, cultivated"];

/// How many plants each client has at most.
const PLANTS: i64 = 64;

/// All plants of a store, by their ids.
pub type Plants = BTreeMap<i64, NewPlant>;

/// What one client has written, and nobody else writes.
#[derive(Debug)]
pub struct Ledger {
    number: i64,
    /// Where each write stands before it is sent, and again when it was acknowledged.
    file: File,
    /// What was there for sure before the entries.
    settled: Plants,
    entries: Vec<Entry>,
    /// How many of the entries were acknowledged. The one after those may have been carried out.
    acknowledged: usize,
    /// How many writes were ever acknowledged.
    total: u64,
}

/// A write: what becomes of one plant.
#[derive(Clone, Debug)]
struct Entry {
    id: i64,
    after: Option<NewPlant>,
}

/// How a write ended.
enum Ending {
    Acknowledged,
    /// The server was too busy, and has not written it.
    Refused,
    /// Nobody knows what became of it.
    InDoubt,
}

impl Ledger {
    /// Empty ledgers for so many clients, whose files are in `folder`.
    ///
    /// # Panics
    ///
    /// When the files cannot be made.
    #[must_use]
    pub fn of_clients(clients: i64, folder: &Path) -> Vec<Self> {
        let new = |number| Self {
            number,
            file: File::create(folder.join(format!("ledger-{number}"))).expect("a file"),
            settled: Plants::new(),
            entries: Vec::new(),
            acknowledged: 0,
            total: 0,
        };
        (0..clients).map(new).collect()
    }

    /// How many writes were ever acknowledged.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many of its writes were acknowledged, where `is_answered` says of a request id whether it was
    /// answered with success.
    pub fn acknowledged_in(&self, is_answered: impl Fn(&str) -> bool) -> usize {
        (0..self.entries.len()).take_while(|entry| is_answered(&self.request_id(*entry))).count()
    }

    fn request_id(&self, entry: usize) -> String {
        format!("ledger-{}-{entry}", self.number)
    }

    /// Creates, replaces, changes and deletes plants until the server does not answer any more, or
    /// there are `most` entries.
    ///
    /// # Panics
    ///
    /// When an answer is not what it should be.
    pub fn write_until_gone(&mut self, client: &Client, chance: &mut Rng, most: usize) {
        let mut plants = self.plants_after(self.acknowledged);
        while self.entries.len() < most {
            let id = self.number * PLANTS + chance.i64(0..PLANTS);
            let (method, body, after) = next_write(plants.get(&id), id, chance);
            self.note(&json!({ "send": id, "after": after.as_ref().map(NewPlant::json) }));
            self.entries.push(Entry { id, after: after.clone() });
            match self.send(client, method, id, &body) {
                Ending::Acknowledged => {
                    self.note(&json!("acknowledged"));
                    self.acknowledged += 1;
                    self.total += 1;
                    match after {
                        Some(plant) => plants.insert(id, plant),
                        None => plants.remove(&id),
                    };
                }
                Ending::Refused => {
                    self.note(&json!("refused"));
                    self.entries.pop();
                }
                Ending::InDoubt => return,
            }
        }
    }

    fn send(&self, client: &Client, method: &str, id: i64, body: &str) -> Ending {
        let request_id = self.request_id(self.entries.len() - 1);
        let path = if method == "POST" { "/plants".to_owned() } else { format!("/plants/{id}") };
        let headers = [("content-type", "application/json"), ("x-request-id", request_id.as_str())];
        let Ok(answer) = client.try_send(method, &path, &headers, body) else {
            return Ending::InDoubt;
        };
        match answer.status {
            200 | 201 | 204 => Ending::Acknowledged,
            503 => {
                let error = answer.json()["error"].as_i64();
                if error == Some(5003) { Ending::Refused } else { Ending::InDoubt }
            }
            _ => panic!("{method} {path} {body}: {answer:?}"),
        }
    }

    fn note(&mut self, line: &serde_json::Value) {
        writeln!(self.file, "{line}").expect("a ledger can be written");
    }

    /// The plants of this client when so many of its entries are carried out.
    fn plants_after(&self, entries: usize) -> Plants {
        let mut plants = self.settled.clone();
        for Entry { id, after } in &self.entries[..entries] {
            match after {
                Some(plant) => plants.insert(*id, plant.clone()),
                None => plants.remove(id),
            };
        }
        plants
    }

    fn owns(&self, id: i64) -> bool {
        id.div_euclid(PLANTS) == self.number
    }

    /// How many entries are carried out in this store, of which so many were acknowledged.
    fn carried_out(&self, store: &Plants, acknowledged: usize) -> Result<usize, String> {
        let is_mine = |(id, _): &(&i64, &NewPlant)| self.owns(**id);
        let mine: Plants =
            store.iter().filter(is_mine).map(|(id, plant)| (*id, plant.clone())).collect();
        let with_the_one_in_doubt = (acknowledged + 1).min(self.entries.len());
        (acknowledged..=with_the_one_in_doubt)
            .rev()
            .find(|entries| self.plants_after(*entries) == mine)
            .ok_or_else(|| self.difference(&mine, acknowledged))
    }

    fn difference(&self, mine: &Plants, acknowledged: usize) -> String {
        let expected = self.plants_after(acknowledged);
        let in_doubt = self.entries.get(acknowledged);
        let ids = expected.keys().chain(mine.keys()).collect::<std::collections::BTreeSet<_>>();
        let different: Vec<String> = ids
            .into_iter()
            .filter(|id| expected.get(id) != mine.get(id))
            .map(|id| {
                let (is, should_be) = (shown(mine.get(id)), shown(expected.get(id)));
                format!("plant {id} is {is} and should be {should_be}")
            })
            .collect();
        let in_doubt = in_doubt.map_or_else(String::new, |Entry { id, after }| {
            format!("; the next one makes plant {id} {}", shown(after.as_ref()))
        });
        format!(
            "client {} after {acknowledged} acknowledged writes: {different:#?}{in_doubt}",
            self.number
        )
    }

    /// Takes the store as it is for what there was before all that comes.
    fn settle(&mut self, carried_out: usize) {
        self.settled = self.plants_after(carried_out);
        self.entries.clear();
        self.acknowledged = 0;
    }
}

/// What a client does next with a plant of its own: method, body, and what the plant is then.
fn next_write(
    current: Option<&NewPlant>,
    id: i64,
    chance: &mut Rng,
) -> (&'static str, String, Option<NewPlant>) {
    let tag = chance.choice(TAGS).filter(|_| chance.bool());
    // Long ones fill the journal and the pages.
    let repeated = if chance.bool() { 240 } else { 1 };
    let name = format!("{} {}", "𐂷".repeat(repeated), chance.u32(..));
    let plant = NewPlant::new(id, &name, tag);
    match current {
        None if chance.bool() => ("POST", plant.json(), Some(plant)),
        None => ("PUT", replacement_body(&name, tag), Some(plant)),
        Some(current) => match chance.u8(..4) {
            0 => ("DELETE", String::new(), None),
            1 => {
                let patch = json!({ "tag": tag }).to_string();
                let after = NewPlant::new(id, &current.name, tag);
                ("PATCH", patch, Some(after))
            }
            _ => ("PUT", replacement_body(&name, tag), Some(plant)),
        },
    }
}

/// A plant in few words: of a long name the end.
fn shown(plant: Option<&NewPlant>) -> String {
    let Some(NewPlant { name, tag, .. }) = plant else { return "nothing".to_owned() };
    let end = name.rsplit(' ').next().unwrap_or_default();
    format!("…{end} with the tag {tag:?}")
}

/// Compares a store with the ledgers: everything that was acknowledged is there, a write that was not
/// is there whole or not at all, and there is nothing that nobody sent. What the store holds then
/// counts as settled.
///
/// # Panics
///
/// When that does not hold.
#[track_caller]
pub fn compare_and_settle(ledgers: &mut [Ledger], store: &Plants) {
    let acknowledged: Vec<usize> = ledgers.iter().map(|ledger| ledger.acknowledged).collect();
    let carried_out = compare(ledgers, &acknowledged, store);
    for (ledger, carried_out) in ledgers.iter_mut().zip(carried_out) {
        ledger.settle(carried_out);
    }
}

/// As [`compare_and_settle`], where so many writes of each client were acknowledged; how many were
/// carried out. Nothing is settled.
///
/// # Panics
///
/// When a claim does not hold.
#[track_caller]
pub fn compare(ledgers: &[Ledger], acknowledged: &[usize], store: &Plants) -> Vec<usize> {
    for id in store.keys() {
        assert!(ledgers.iter().any(|ledger| ledger.owns(*id)), "nobody sent plant {id}");
    }
    let mut carried_out = Vec::new();
    for (ledger, acknowledged) in ledgers.iter().zip(acknowledged) {
        match ledger.carried_out(store, *acknowledged) {
            Ok(entries) => carried_out.push(entries),
            Err(difference) => panic!("the store is not as its clients know it: {difference}"),
        }
    }
    carried_out
}

/// Takes the store as it is for what there was before all that comes: so many entries of each client
/// are carried out.
pub fn settle(ledgers: &mut [Ledger], carried_out: &[usize]) {
    for (ledger, carried_out) in ledgers.iter_mut().zip(carried_out) {
        ledger.settle(*carried_out);
    }
}

/// What a server holds, after a look whether plants, count and tags agree.
///
/// # Panics
///
/// When they do not.
#[must_use]
#[track_caller]
pub fn store_of(server: &TestServer) -> Plants {
    let client = server.client();
    let export = client.export(Format::Ndjson);
    let plants: Plants = serde_json::Deserializer::from_slice(&export)
        .into_iter()
        .map(|row| NewPlant::from_json(&row.expect("a row is JSON")))
        .map(|plant| (plant.id, plant))
        .collect();
    let count = client.list("limit=1").total_count();
    assert_eq!(count, Some(plants.len()), "the count of the plants");
    for tag in TAGS {
        let tagged = client.list_all(&format!("limit=1000&tag={}", percent_encoded(tag)));
        let expected: Vec<&NewPlant> =
            plants.values().filter(|plant| plant.tag.as_deref() == Some(tag)).collect();
        assert_eq!(tagged.iter().collect::<Vec<_>>(), expected, "the plants with the tag {tag}");
    }
    plants
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
