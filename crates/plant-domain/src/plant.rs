//! A plant, with and without its id. Only the constructors create one, and they check the rules.

use serde::{Serialize, Serializer};

use crate::{PlantId, Violations, rules};

/// A valid plant without its id: the Plant resource of the specification (section "Plant").
///
/// Its JSON is `{"name": …, "tag": …}`, without `tag` when it has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Plant {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
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

/// The members of a valid [`NewPlant`], borrowed from where they are stored. Has the same JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NewPlantRef<'a> {
    /// The identification number.
    pub id: PlantId,
    /// The name.
    pub name: &'a str,
    /// The tag that specifies the type of the plant, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<&'a str>,
}

impl Plant {
    /// A plant with exactly this name and tag.
    ///
    /// # Errors
    ///
    /// Every rule that the name or the tag breaks.
    pub fn new(name: impl Into<String>, tag: Option<String>) -> Result<Self, Violations> {
        let name = name.into();
        rules::check(Some(&name), tag.as_deref())?;
        Ok(Self { name, tag })
    }

    /// A plant from members that have passed the rules.
    pub(crate) const fn of_valid(name: String, tag: Option<String>) -> Self {
        Self { name, tag }
    }

    /// Adds the id. Every id is valid.
    #[must_use]
    pub const fn with_id(self, id: PlantId) -> NewPlant {
        NewPlant { id, plant: self }
    }

    /// Every member: name, then tag. Code that stores or sends plants calls this method, so a new member stops that
    /// code from compiling.
    #[must_use]
    pub fn members(&self) -> (&str, Option<&str>) {
        let Self { name, tag } = self;
        (name, tag.as_deref())
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
        let (name, tag) = self.plant.members();
        NewPlantRef { id: self.id, name, tag }
    }

    /// The id and the plant.
    #[must_use]
    pub fn into_parts(self) -> (PlantId, Plant) {
        (self.id, self.plant)
    }
}

impl Serialize for NewPlant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.borrowed().serialize(serializer)
    }
}
