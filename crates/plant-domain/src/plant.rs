//! A plant, with and without its id. The constructors check the rules, and there is no other way to one.

use serde::Serialize;

use crate::{PlantId, Violations, rules};

/// A valid plant without its id: the Plant resource of the specification (section "Plant").
///
/// It is written as `{"name": …, "tag": …}`, without `tag` when it has none.
///
/// ```
/// use plant_domain::Plant;
///
/// let willow = Plant::new("Salix alba", Some("Salicaceae".to_owned()))?;
/// assert_eq!((willow.name(), willow.tag()), ("Salix alba", Some("Salicaceae")));
/// assert!(Plant::new(" ", None).is_err());
/// # Ok::<(), plant_domain::Violations>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Plant {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

/// A valid plant with its id: the NewPlant resource of the specification (section "NewPlant").
///
/// It is written flat, as `{"id": …, "name": …, "tag": …}`.
///
/// ```
/// use plant_domain::NewPlant;
///
/// let willow = NewPlant::new(-7, "Salix alba", None)?;
/// assert_eq!(serde_json::to_string(&willow)?, r#"{"id":-7,"name":"Salix alba"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NewPlant {
    id: PlantId,
    #[serde(flatten)]
    plant: Plant,
}

impl Plant {
    /// A plant with this name and tag, both kept exactly as they are.
    ///
    /// # Errors
    ///
    /// Every rule that one of them breaks.
    pub fn new(name: impl Into<String>, tag: Option<String>) -> Result<Self, Violations> {
        let name = name.into();
        rules::check(Some(&name), tag.as_deref())?;
        Ok(Self { name, tag })
    }

    /// A plant whose name and tag follow the rules.
    pub(crate) const fn of_valid(name: String, tag: Option<String>) -> Self {
        Self { name, tag }
    }

    /// The plant gets its id. Every id is valid.
    #[must_use]
    pub const fn with_id(self, id: PlantId) -> NewPlant {
        NewPlant { id, plant: self }
    }

    /// Every member: name, then tag. Code that keeps a plant or sends it reads the plant through this method, so that such
    /// code does not compile when a plant gets another member.
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

    /// The id and the plant, each on its own.
    #[must_use]
    pub fn into_parts(self) -> (PlantId, Plant) {
        (self.id, self.plant)
    }
}
