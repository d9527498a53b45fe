//! One write of a client: what it sends, and how it changes plants.

use std::fmt;
use std::ops::Range;

use fastrand::Rng;
use serde_json::json;

use super::store::{LONG_TAG, Plants, TAGS};
use crate::answer::Counts;
use crate::client::{Client, batch_body};
use crate::plant::{Format, NewPlant, replacement_body};

/// One in this many writes is an import, and one is a batch.
const IMPORTS_AND_BATCHES: u8 = 8;

/// The most requests of a batch.
const MOST_REQUESTS: usize = 12;

/// The change of one plant.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) id: i64,
    pub(super) after: Option<NewPlant>,
}

impl Change {
    pub(super) fn apply(&self, plants: &mut Plants) {
        match &self.after {
            Some(plant) => plants.insert(self.id, plant.clone()),
            None => plants.remove(&self.id),
        };
    }
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "plant {}: {}", self.id, in_few_words(self.after.as_ref()))
    }
}

/// Describes a plant by the end of its name, which may be long.
pub(super) fn in_few_words(plant: Option<&NewPlant>) -> String {
    let Some(NewPlant { name, tag, .. }) = plant else { return "nothing".to_owned() };
    let end = name.rsplit(' ').next().unwrap_or_default();
    format!("…{end} with the tag {tag:?}")
}

/// Changes that happen as one.
pub(super) type Step = Vec<Change>;

#[derive(Debug)]
pub(super) struct Write {
    method: &'static str,
    path: String,
    body: String,
    /// The status of a success; an import also answers with this report.
    status: u16,
    report: Option<Counts>,
    /// The statuses in the answer to a batch.
    statuses: Vec<u16>,
    /// The steps in order: an import that ends early has made the first of them.
    pub(super) steps: Vec<Step>,
}

/// The outcome of a write, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The write was carried out. Its body had this many bytes.
    Acknowledged(usize),
    /// The server was too busy, and did not carry out the write.
    Refused,
    /// The disk is full: an import was carried out only in part, and any other write not at all.
    DiskFull,
    /// The store has failed, and the outcome of this write is unknown.
    StoreFailed,
    /// The client got no answer, and the outcome of this write is unknown.
    NoAnswer,
}

impl WriteOutcome {
    /// Whether the outcome of the write may be unknown.
    pub fn is_in_doubt(self) -> bool {
        matches!(self, Self::DiskFull | Self::StoreFailed | Self::NoAnswer)
    }
}

impl Write {
    /// A random write of a client that has these plants and owns these ids.
    pub(super) fn any(
        plants: &Plants,
        ids: Range<i64>,
        most_rows: usize,
        chance: &mut Rng,
    ) -> Self {
        match chance.u8(..IMPORTS_AND_BATCHES) {
            0 => {
                let rows = 0..chance.usize(1..=most_rows);
                let rows = rows.map(|_| any_plant(chance.i64(ids.clone()), true, chance)).collect();
                Self::import(plants, rows)
            }
            1 => {
                let ids = chance.choose_multiple(ids, MOST_REQUESTS);
                let count = chance.usize(1..=ids.len());
                let ids = ids.into_iter().take(count);
                Self::batch(ids.map(|id| Self::of_plant(plants, id, chance)).collect())
            }
            _ => Self::of_plant(plants, chance.i64(ids), chance),
        }
    }

    /// A random write of one plant.
    fn of_plant(plants: &Plants, id: i64, chance: &mut Rng) -> Self {
        let plant = any_plant(id, chance.bool(), chance);
        match plants.get(&id) {
            None if chance.bool() => {
                let body = plant.json();
                Self::single("POST", id, body, 200, Some(plant))
            }
            None => Self::put(plant, 201),
            Some(current) => match chance.u8(..4) {
                0 => Self::single("DELETE", id, String::new(), 204, None),
                1 => Self::patch(current, plant, chance),
                _ => Self::put(plant, 200),
            },
        }
    }

    /// A batch of writes of different plants.
    fn batch(writes: Vec<Self>) -> Self {
        let request = |write: &Self| {
            let body = if write.body.is_empty() { "null" } else { &write.body };
            let (method, path) = (write.method, &write.path);
            format!("{{\"method\":\"{method}\",\"path\":\"{path}\",\"body\":{body}}}")
        };
        let requests: Vec<String> = writes.iter().map(request).collect();
        let statuses = writes.iter().map(|write| write.status).collect();
        let changes = writes.into_iter().flat_map(|write| write.steps).flatten().collect();
        Self {
            method: "POST",
            path: "/batch".to_owned(),
            body: batch_body(&requests),
            status: 200,
            report: None,
            statuses,
            steps: vec![changes],
        }
    }

    fn single(
        method: &'static str,
        id: i64,
        body: String,
        status: u16,
        after: Option<NewPlant>,
    ) -> Self {
        let steps = vec![vec![Change { id, after }]];
        let path = if method == "POST" { "/plants".to_owned() } else { format!("/plants/{id}") };
        Self { method, path, body, status, report: None, statuses: Vec::new(), steps }
    }

    fn put(plant: NewPlant, status: u16) -> Self {
        let body = replacement_body(&plant.name, plant.tag.as_deref());
        Self::single("PUT", plant.id, body, status, Some(plant))
    }

    /// Changes the name, the tag, or both.
    fn patch(current: &NewPlant, mut plant: NewPlant, chance: &mut Rng) -> Self {
        let (mut patch, id) = (json!({ "name": plant.name, "tag": plant.tag }), plant.id);
        let members = patch.as_object_mut().expect("a patch is an object");
        match chance.u8(..3) {
            0 => {
                members.remove("name");
                plant.name.clone_from(&current.name);
            }
            1 => {
                members.remove("tag");
                plant.tag.clone_from(&current.tag);
            }
            _ => {}
        }
        Self::single("PATCH", id, patch.to_string(), 200, Some(plant))
    }

    fn import(plants: &Plants, rows: Vec<NewPlant>) -> Self {
        let body = Format::Ndjson.body(&rows);
        let (mut plants, mut counts) = (plants.clone(), Counts::default());
        let mut steps = Vec::new();
        for plant in rows {
            match plants.insert(plant.id, plant.clone()) {
                Some(_) => counts.replaced += 1,
                None => counts.created += 1,
            }
            steps.push(vec![Change { id: plant.id, after: Some(plant) }]);
        }
        let path = "/plants/import?on_conflict=replace".to_owned();
        let (report, statuses) = (Some(counts), Vec::new());
        Self { method: "POST", path, body, status: 200, report, statuses, steps }
    }

    /// Sends the write, and asserts that the answer is a possible one.
    pub(super) fn send(&self, client: &Client, request_id: &str) -> WriteOutcome {
        let media_type = self.report.map_or("application/json", |_| Format::Ndjson.media_type());
        let headers = [("content-type", media_type), ("x-request-id", request_id)];
        let Ok(answer) = client.try_send(self.method, &self.path, &headers, &self.body) else {
            return WriteOutcome::NoAnswer;
        };
        if answer.status == 503 {
            let seconds = answer.header("retry-after").and_then(|text| text.parse::<u32>().ok());
            assert!(seconds.is_some(), "no valid Retry-After: {answer:?}");
            if answer.json()["error"] == 5003 {
                return WriteOutcome::Refused;
            }
            let message = answer.assert_error(503, 5002);
            return if message.contains("disk of the store is full") {
                WriteOutcome::DiskFull
            } else {
                WriteOutcome::StoreFailed
            };
        }
        assert_eq!(answer.status, self.status, "{self:?}: {answer:?}");
        if let Some(counts) = self.report {
            answer.assert_report(counts);
        }
        if !self.statuses.is_empty() {
            let answer = answer.json();
            let responses = answer["responses"].as_array().expect("an array of responses").iter();
            let statuses = responses.map(|response| response["status"].as_u64());
            assert!(statuses.eq(self.statuses.iter().map(|it| Some(u64::from(*it)))), "{answer}");
        }
        WriteOutcome::Acknowledged(self.body.len())
    }
}

/// A plant unlike all before. Long texts fill the write-ahead log and the tables.
fn any_plant(id: i64, is_long: bool, chance: &mut Rng) -> NewPlant {
    let any_tag = chance.choice(TAGS).filter(|_| chance.bool());
    let tag = if is_long && chance.bool() { Some(LONG_TAG) } else { any_tag };
    let repeated = if is_long { 240 } else { 1 };
    NewPlant::new(id, &format!("{} {}", "𐂷".repeat(repeated), chance.u32(..)), tag)
}
