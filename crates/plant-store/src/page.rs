//! A page of plants.

use plant_domain::{NewPlantRef, Plant, PlantId, Violations};
use serde::{Serialize, Serializer};

use crate::{Revision, StoredPlant};

/// A page of plants by ascending id, and where to continue. Its JSON is the array of its plants.
///
/// The texts of all plants share one allocation, because most plants of a page are only sent, never kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    rows: Vec<Row>,
    /// The name and the tag of each row, one after the other.
    texts: String,
    /// The id of the next [`PagePlace`](crate::PagePlace) in the direction of the request, if there may be a next page.
    pub next: Option<PlantId>,
}

/// A plant of the page, with the lengths of its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    id: PlantId,
    revision: Revision,
    name_bytes: usize,
    tag_bytes: Option<usize>,
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
        let NewPlantRef { id, name, tag } = plant;
        self.texts.push_str(name);
        self.texts.push_str(tag.unwrap_or_default());
        let (name_bytes, tag_bytes) = (name.len(), tag.map(str::len));
        self.rows.push(Row { id, revision, name_bytes, tag_bytes });
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
            let name;
            (name, rest) = rest.split_at(row.name_bytes);
            let tag = row.tag_bytes.map(|tag_bytes| {
                let tag;
                (tag, rest) = rest.split_at(tag_bytes);
                tag
            });
            (NewPlantRef { id: row.id, name, tag }, row.revision)
        })
    }

    /// Copies of the plants, to keep.
    ///
    /// # Errors
    ///
    /// Every rule that the first invalid plant breaks. No repository returns such a page.
    pub fn stored_plants(&self) -> Result<Vec<StoredPlant>, Violations> {
        let stored = |(plant, revision): (NewPlantRef<'_>, Revision)| {
            let NewPlantRef { id, name, tag } = plant;
            let plant = Plant::new(name, tag.map(str::to_owned))?;
            Ok(StoredPlant { id, plant, revision })
        };
        self.plants().map(stored).collect()
    }
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.plants().map(|(plant, _)| plant))
    }
}
