//! Clients that write down what they were told, so that it can be compared with what a server has
//! after a fault.

use std::collections::BTreeMap;

use plantd_tests::{Answer, Client, Format, NewPlant, replacement_body};

/// How many plants a client has that writes one after the other.
const SINGLE_PLANTS: i64 = 16;

/// How many plants one import has. Their names are as long as may be, so that a segment of the journal
/// is full after a few imports.
const IMPORTED_PLANTS: i64 = 256;

const NAME_MAX_CHARACTERS: usize = 255;

/// How many plants of a client are read one by one when all are compared.
const PLANTS_READ: usize = 16;

/// The tags that plants have.
pub(super) const TAGS: [&str; 3] = ["Rosa", "Salix", "Abies"];

/// How a client writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// Creates, replaces, patches and deletes one plant after the other.
    Single,
    /// Imports all of its plants again and again.
    Import,
}

/// Why a client could not go on.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// It was told that the store failed.
    StoreFailed,
    /// It was told nothing.
    NoAnswer,
}

/// One client, and what it knows of its plants, which are its alone.
#[derive(Debug)]
pub(super) struct Writer {
    way: Way,
    plants: BTreeMap<i64, Known>,
    chance: fastrand::Rng,
    /// How many writes were answered with success.
    pub(super) acknowledged: u64,
}

/// What is known of a plant: how it is, and how it may be instead, since a write was not answered.
#[derive(Debug)]
struct Known {
    acknowledged: State,
    unanswered: Option<State>,
    /// The newest version that a read has shown.
    seen: u64,
}

/// A plant, or its absence, after so many writes to it.
#[derive(Clone, Debug, PartialEq)]
struct State {
    version: u64,
    plant: Option<NewPlant>,
}

impl Writer {
    /// A client that has the plants from `first_id` on.
    pub(super) fn new(way: Way, first_id: i64, chance: fastrand::Rng) -> Self {
        let count = if way == Way::Single { SINGLE_PLANTS } else { IMPORTED_PLANTS };
        let absent = State { version: 0, plant: None };
        let known = |id| (id, Known { acknowledged: absent.clone(), unanswered: None, seen: 0 });
        let plants = (first_id..first_id + count).map(known).collect();
        Self { way, plants, chance, acknowledged: 0 }
    }

    /// Writes until there is no success any more.
    pub(super) fn write(&mut self, client: &Client) -> End {
        loop {
            let answer = match self.way {
                Way::Single => self.write_one(client),
                Way::Import => self.import(client),
            };
            match answer {
                Some(answer) if (200..300).contains(&answer.status) => self.all_acknowledged(),
                Some(answer) => {
                    answer.assert_error(503, 5002);
                    return End::StoreFailed;
                }
                None => return End::NoAnswer,
            }
        }
    }

    fn write_one(&mut self, client: &Client) -> Option<Answer> {
        let index = self.chance.usize(..self.plants.len());
        let (id, known) = self.plants.iter_mut().nth(index).expect("it has so many plants");
        let (id, version) = (*id, known.acknowledged.version + 1);
        let plant = plant_of(id, version, self.way);
        let path = format!("/plants/{id}");
        let is_there = known.acknowledged.plant.is_some();
        let is_deletion = is_there && self.chance.u8(..4) == 0;
        let (method, path, body) = match self.chance.bool() {
            _ if is_deletion => ("DELETE", path, String::new()),
            true if !is_there => ("POST", "/plants".to_owned(), plant.json()),
            true => ("PATCH", path, patch_body(&plant)),
            false => ("PUT", path, replacement_body(&plant.name, plant.tag.as_deref())),
        };
        known.unanswered = Some(State { version, plant: (!is_deletion).then_some(plant) });
        let headers: &[_] = if is_deletion { &[] } else { &[("content-type", "application/json")] };
        client.try_send(method, &path, headers, body).ok()
    }

    fn import(&mut self, client: &Client) -> Option<Answer> {
        for (id, known) in &mut self.plants {
            let version = known.acknowledged.version + 1;
            let plant = Some(plant_of(*id, version, self.way));
            known.unanswered = Some(State { version, plant });
        }
        let unanswered = self.plants.values().filter_map(|known| known.unanswered.as_ref());
        let body = Format::Ndjson.body(unanswered.filter_map(|state| state.plant.as_ref()));
        let headers = [("content-type", Format::Ndjson.media_type())];
        let path = "/plants/import?on_conflict=replace";
        let answer = client.try_send("POST", path, &headers, body).ok()?;
        if answer.status == 200 {
            assert_eq!(answer.json()["failed"], 0, "{answer:?}");
        }
        Some(answer)
    }

    fn all_acknowledged(&mut self) {
        for known in self.plants.values_mut() {
            if let Some(state) = known.unanswered.take() {
                known.acknowledged = state;
                self.acknowledged += 1;
            }
        }
    }

    /// Remembers what reads have shown.
    pub(super) fn see(&mut self, shown: &BTreeMap<i64, NewPlant>) {
        for (id, known) in &mut self.plants {
            if let Some(plant) = shown.get(id) {
                known.seen = known.seen.max(version_in(&plant.name));
            }
        }
    }

    /// Takes the plants of this client out of those that the server has, and claims that they are as
    /// they may be.
    #[track_caller]
    pub(super) fn check(&mut self, found: &mut BTreeMap<i64, NewPlant>) {
        for (id, known) in &mut self.plants {
            let plant = found.remove(id);
            let states = [Some(known.acknowledged.clone()), known.unanswered.take()];
            let state = states.iter().flatten().find(|state| state.plant == plant);
            let Some(state) = state else {
                panic!("plant {id} is {plant:?}, and may be one of {states:?}");
            };
            let (version, seen) = (state.version, known.seen);
            assert!(version >= seen, "a read showed version {seen} of plant {id}: {plant:?}");
            known.acknowledged = state.clone();
        }
    }

    /// Claims that some of its plants read one by one as [`Self::check`] has found them.
    #[track_caller]
    pub(super) fn check_reads(&self, client: &Client) {
        for (id, known) in self.plants.iter().take(PLANTS_READ) {
            let answer = client.read(*id);
            match &known.acknowledged.plant {
                Some(plant) => answer.assert_new_plant(*id, &plant.name, plant.tag.as_deref()),
                None => drop(answer.assert_error(404, 3002)),
            }
        }
    }
}

/// The plant with this id after so many writes; each of them changes its name, and most its tag.
fn plant_of(id: i64, version: u64, way: Way) -> NewPlant {
    let mut name = format!("plant {id} version {version}.");
    if way == Way::Import {
        name.extend(std::iter::repeat_n('🌱', NAME_MAX_CHARACTERS - name.len()));
    }
    // Most tags come and go.
    let tag = usize::try_from(version % 4).ok().and_then(|number| TAGS.get(number)).copied();
    NewPlant::new(id, &name, tag)
}

fn version_in(name: &str) -> u64 {
    let (_, rest) = name.split_once("version ").expect("a name has a version");
    let (version, _) = rest.split_once('.').expect("a version ends");
    version.parse().expect("a version is a number")
}

fn patch_body(plant: &NewPlant) -> String {
    serde_json::json!({ "name": plant.name, "tag": plant.tag }).to_string()
}
