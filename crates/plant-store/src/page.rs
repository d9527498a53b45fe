//! A page of plants.

use plant_domain::{MEMBERS, NewPlantRef, PlantId, PlantRef, Violations};
use serde::{Serialize, Serializer};

use crate::{Revision, StoredPlant};

/// A page of plants by ascending id, and where to continue. Its JSON is the array of its plants.
///
/// The texts of all plants share one allocation, because most plants of a page are only sent, never kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    rows: Vec<Row>,
    /// The texts of each row, one after the other.
    texts: String,
    /// The id of the next [`PagePlace`](crate::PagePlace) in the direction of the request, if there may be a next page.
    pub next: Option<PlantId>,
}

/// A plant of the page, with the lengths of its texts in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    id: PlantId,
    revision: Revision,
    lengths: [Option<usize>; MEMBERS.len()],
}

impl Page {
    /// An empty page with room for this many plants.
    #[must_use]
    pub fn with_capacity(plants: usize) -> Self {
        /// The usual length of a name and a tag together, in bytes.
        const TEXT_BYTES: usize = 40;
        Self {
            rows: Vec::with_capacity(plants),
            texts: String::with_capacity(TEXT_BYTES * plants),
            next: None,
        }
    }

    /// Adds a valid plant, whose id must be greater than those before.
    pub fn push(&mut self, plant: NewPlantRef<'_>, revision: Revision) {
        let NewPlantRef { id, plant } = plant;
        let texts = plant.texts();
        texts.into_iter().flatten().for_each(|text| self.texts.push_str(text));
        self.rows.push(Row { id, revision, lengths: texts.map(|text| text.map(str::len)) });
    }

    /// How many plants are on the page.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no plant is on the page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The plants, and their revisions.
    pub fn plants(&self) -> impl Iterator<Item = (NewPlantRef<'_>, Revision)> {
        let mut rest = &*self.texts;
        self.rows.iter().map(move |row| {
            let mut next = |length| {
                let text;
                (text, rest) = rest.split_at(length);
                text
            };
            let plant = PlantRef::of_texts(row.lengths.map(|length| length.map(&mut next)));
            (NewPlantRef { id: row.id, plant }, row.revision)
        })
    }

    /// Copies of the plants, to keep.
    ///
    /// # Errors
    ///
    /// Every rule that the first invalid plant breaks. No repository returns such a page.
    pub fn stored_plants(&self) -> Result<Vec<StoredPlant>, Violations> {
        let stored = |(plant, revision): (NewPlantRef<'_>, Revision)| {
            Ok(StoredPlant { id: plant.id, plant: plant.plant.to_plant()?, revision })
        };
        self.plants().map(stored).collect()
    }
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.plants().map(|(plant, _)| plant))
    }
}
