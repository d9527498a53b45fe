//! A plant, with and without its id. Only the constructors create one, and they check the rules.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::{PlantId, Violations, rules};

/// The names of the members of a plant beside its id, all of which are texts.
pub const MEMBERS: [&str; 2] = ["name", "tag"];

/// The names of the members that a plant may lack.
pub const OPTIONAL_MEMBERS: [&str; 1] = ["tag"];

/// The names of all members, in the order of JSON and of columns.
pub const COLUMNS: [&str; 3] = ["id", "name", "tag"];

/// A valid plant without its id: the Plant resource of the specification (section "Plant").
///
/// Its JSON is `{"name": …, "tag": …}`, without `tag` when it has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plant {
    name: String,
    tag: Option<String>,
}

/// Every member of a [`Plant`], borrowed from where it is stored. Has the same JSON as the plant.
///
/// Code that knows the members destructures this, so a new member stops that code from compiling. Code that treats all
/// members alike, such as formats of rows, uses [`MEMBERS`] and [`Self::texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlantRef<'a> {
    /// The name.
    pub name: &'a str,
    /// The tag that specifies the type of the plant, if it has one.
    pub tag: Option<&'a str>,
}

/// A valid plant with its id: the NewPlant resource of the specification (section "NewPlant").
///
/// Its JSON is flat:
///
/// ```
/// use plant_domain::NewPlant;
///
/// let willow = NewPlant::new(-7, "Salix alba", None)?;
/// assert_eq!(serde_json::to_string(&willow)?, r#"{"id":-7,"name":"Salix alba"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewPlant {
    id: PlantId,
    plant: Plant,
}

/// A [`NewPlant`], borrowed from where it is stored. Has the same JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPlantRef<'a> {
    /// The identification number.
    pub id: PlantId,
    /// The plant without its id.
    pub plant: PlantRef<'a>,
}

impl<'a> PlantRef<'a> {
    /// The text of each member that the plant has, in the order of [`MEMBERS`].
    #[must_use]
    pub const fn texts(self) -> [Option<&'a str>; MEMBERS.len()] {
        let Self { name, tag } = self;
        [Some(name), tag]
    }

    /// The members with these texts. A name that is missing is empty.
    #[must_use]
    pub fn of_texts(texts: [Option<&'a str>; MEMBERS.len()]) -> Self {
        let [name, tag] = texts;
        Self { name: name.unwrap_or_default(), tag }
    }

    /// A plant with exactly these members.
    ///
    /// # Errors
    ///
    /// Every rule that a member breaks.
    pub fn to_plant(self) -> Result<Plant, Violations> {
        rules::check(self.texts())?;
        Ok(self.to_valid_plant())
    }

    /// A plant from members that have passed the rules.
    pub(crate) fn to_valid_plant(self) -> Plant {
        let Self { name, tag } = self;
        Plant { name: name.to_owned(), tag: tag.map(str::to_owned) }
    }

    fn add_to<M: SerializeMap>(self, object: &mut M) -> Result<(), M::Error> {
        for (member, text) in MEMBERS.iter().zip(self.texts()) {
            if let Some(text) = text {
                object.serialize_entry(member, text)?;
            }
        }
        Ok(())
    }
}

impl Plant {
    /// A plant with this name and tag. [`PlantRef::to_plant`] takes every member.
    ///
    /// # Errors
    ///
    /// Every rule that the name or the tag breaks.
    pub fn new(name: impl Into<String>, tag: Option<String>) -> Result<Self, Violations> {
        let plant = Self { name: name.into(), tag };
        rules::check(plant.members().texts())?;
        Ok(plant)
    }

    /// Adds the id. Every id is valid.
    #[must_use]
    pub const fn with_id(self, id: PlantId) -> NewPlant {
        NewPlant { id, plant: self }
    }

    /// Every member, borrowed.
    #[must_use]
    pub fn members(&self) -> PlantRef<'_> {
        let Self { name, tag } = self;
        PlantRef { name, tag: tag.as_deref() }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tag that specifies the type of the plant, if it has one.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

impl NewPlant {
    /// A plant with this id, name and tag.
    ///
    /// # Errors
    ///
    /// As for [`Plant::new`].
    pub fn new(
        id: impl Into<PlantId>,
        name: impl Into<String>,
        tag: Option<String>,
    ) -> Result<Self, Violations> {
        Ok(Plant::new(name, tag)?.with_id(id.into()))
    }

    /// The identification number.
    #[must_use]
    pub const fn id(&self) -> PlantId {
        self.id
    }

    /// The plant without its id.
    #[must_use]
    pub const fn plant(&self) -> &Plant {
        &self.plant
    }

    /// Every member, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> NewPlantRef<'_> {
        NewPlantRef { id: self.id, plant: self.plant.members() }
    }

    /// The id and the plant.
    #[must_use]
    pub fn into_parts(self) -> (PlantId, Plant) {
        (self.id, self.plant)
    }
}

impl Serialize for PlantRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        self.add_to(&mut object)?;
        object.end()
    }
}

impl Serialize for NewPlantRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("id", &self.id)?;
        self.plant.add_to(&mut object)?;
        object.end()
    }
}

impl Serialize for Plant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.members().serialize(serializer)
    }
}

impl Serialize for NewPlant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.borrowed().serialize(serializer)
    }
}
