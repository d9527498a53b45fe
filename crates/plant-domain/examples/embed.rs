//! A service of one's own that takes plants: unchecked input goes in, valid plants or an error with
//! its number come out. Run it with `cargo run -p plant-domain --example embed`.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Write};

use plant_domain::{Error, NewPlant, Plant, PlantId, error_number};

/// A garden keeps its plants wherever it likes: the rules come from the domain.
#[derive(Default)]
struct Garden {
    plants: BTreeMap<PlantId, Plant>,
}

impl Garden {
    fn plant(&mut self, id: i64, name: &str) -> Result<&Plant, Error> {
        let (id, plant) = NewPlant::new(id, name, None)?.into_parts();
        match self.plants.entry(id) {
            Entry::Vacant(place) => Ok(place.insert(plant)),
            Entry::Occupied(_) => Err(Error {
                error: error_number::ID_TAKEN,
                message: format!("a plant with id {id} exists already; choose another id"),
            }),
        }
    }
}

fn main() -> io::Result<()> {
    let mut garden = Garden::default();
    let mut out = io::stdout().lock();
    for (id, name) in [(1, "Salix alba"), (1, "Salix babylonica"), (2, "\u{7}")] {
        match garden.plant(id, name) {
            Ok(plant) => writeln!(out, "planted {}", plant.name())?,
            Err(error) => writeln!(out, "refused: {error}")?,
        }
    }
    Ok(())
}
