//! A plant, with and without its id, and the one door to a valid one.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{PlantId, Violations, rules};

/// What someone says is a plant. It becomes a [`Plant`] by [`Plant::try_from`].
///
/// ```
/// use plant_domain::{Plant, UncheckedPlant};
///
/// let unchecked = UncheckedPlant { name: "Salix alba".to_owned(), tag: None };
/// assert_eq!(Plant::try_from(unchecked)?.name(), "Salix alba");
/// # Ok::<(), plant_domain::Violations>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncheckedPlant {
    /// The name, unchecked.
    pub name: String,
    /// The tag, unchecked.
    pub tag: Option<String>,
}

/// What someone says is a plant to create. It becomes a [`NewPlant`] by [`NewPlant::try_from`].
///
/// ```
/// use plant_domain::{NewPlant, UncheckedNewPlant};
///
/// let unchecked = UncheckedNewPlant { id: 7, name: "Salix alba".to_owned(), tag: None };
/// assert_eq!(NewPlant::try_from(unchecked)?.id().get(), 7);
/// # Ok::<(), plant_domain::Violations>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncheckedNewPlant {
    /// The id: every int64 is valid.
    pub id: i64,
    /// The name, unchecked.
    pub name: String,
    /// The tag, unchecked.
    pub tag: Option<String>,
}

/// A valid plant without its id: the Plant resource of the specification (section "Plant").
///
/// It is written as `{"name": …, "tag": …}`, without `tag` when it has none, and read from an
/// object only, through the rules; members that it does not know are ignored.
///
/// ```
/// use plant_domain::Plant;
///
/// let plant: Plant = serde_json::from_str(r#"{"name":"Salix alba","tag":null,"note":1}"#)?;
/// assert_eq!(serde_json::to_string(&plant)?, r#"{"name":"Salix alba"}"#);
/// assert!(serde_json::from_str::<Plant>(r#"["Salix alba", null]"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Plant {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
}

/// A valid plant with its id: the NewPlant resource of the specification (section "NewPlant").
///
/// It is written flat, as `{"id": …, "name": …, "tag": …}`, and read from an object only, through
/// the rules.
///
/// ```
/// use plant_domain::NewPlant;
///
/// let json = r#"{"id":-7,"name":"Salix alba"}"#;
/// let new_plant: NewPlant = serde_json::from_str(json)?;
/// assert_eq!(serde_json::to_string(&new_plant)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NewPlant {
    id: PlantId,
    #[serde(flatten)]
    plant: Plant,
}

impl Plant {
    /// The name, exactly as it was sent.
    ///
    /// ```
    /// # use plant_domain::Plant;
    /// let plant: Plant = serde_json::from_str(r#"{"name":" Rosa "}"#)?;
    /// assert_eq!(plant.name(), " Rosa ");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tag that specifies the type of the plant, if it has one.
    ///
    /// ```
    /// # use plant_domain::Plant;
    /// let plant: Plant = serde_json::from_str(r#"{"name":"Rosa","tag":"Rosaceae"}"#)?;
    /// assert_eq!(plant.tag(), Some("Rosaceae"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

impl NewPlant {
    /// A valid plant gets its id. No rule can break here: a plant is valid, and so is every id.
    ///
    /// ```
    /// use plant_domain::{NewPlant, Plant, PlantId};
    ///
    /// let plant: Plant = serde_json::from_str(r#"{"name":"Rosa"}"#)?;
    /// assert_eq!(NewPlant::new(PlantId::from(7), plant).id().get(), 7);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub const fn new(id: PlantId, plant: Plant) -> Self {
        Self { id, plant }
    }

    /// The identification number.
    ///
    /// ```
    /// # use plant_domain::{NewPlant, PlantId};
    /// let new_plant: NewPlant = serde_json::from_str(r#"{"id":7,"name":"Rosa"}"#)?;
    /// assert_eq!(new_plant.id(), PlantId::from(7));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub const fn id(&self) -> PlantId {
        self.id
    }

    /// The plant without its id.
    ///
    /// ```
    /// # use plant_domain::NewPlant;
    /// let new_plant: NewPlant = serde_json::from_str(r#"{"id":7,"name":"Rosa"}"#)?;
    /// assert_eq!(new_plant.plant().name(), "Rosa");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub const fn plant(&self) -> &Plant {
        &self.plant
    }

    /// The id and the plant, each on its own.
    ///
    /// ```
    /// # use plant_domain::NewPlant;
    /// let new_plant: NewPlant = serde_json::from_str(r#"{"id":7,"name":"Rosa"}"#)?;
    /// let (id, plant) = new_plant.into_parts();
    /// assert_eq!((id.get(), plant.name()), (7, "Rosa"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn into_parts(self) -> (PlantId, Plant) {
        (self.id, self.plant)
    }
}

impl TryFrom<UncheckedPlant> for Plant {
    type Error = Violations;

    fn try_from(unchecked: UncheckedPlant) -> Result<Self, Violations> {
        let UncheckedPlant { name, tag } = unchecked;
        rules::check(Some(&name), tag.as_deref())?;
        Ok(Self { name, tag })
    }
}

impl TryFrom<UncheckedNewPlant> for NewPlant {
    type Error = Violations;

    fn try_from(unchecked: UncheckedNewPlant) -> Result<Self, Violations> {
        let UncheckedNewPlant { id, name, tag } = unchecked;
        let plant = Plant::try_from(UncheckedPlant { name, tag })?;
        Ok(Self::new(PlantId::from(id), plant))
    }
}

/// The members of a Plant, as they are read.
#[derive(Deserialize)]
struct PlantMembers {
    name: String,
    tag: Option<String>,
}

/// The members of a NewPlant, as they are read.
#[derive(Deserialize)]
struct NewPlantMembers {
    id: i64,
    name: String,
    tag: Option<String>,
}

impl<'de> Deserialize<'de> for Plant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let PlantMembers { name, tag } = object_only(deserializer)?;
        Self::try_from(UncheckedPlant { name, tag }).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for NewPlant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let NewPlantMembers { id, name, tag } = object_only(deserializer)?;
        Self::try_from(UncheckedNewPlant { id, name, tag }).map_err(de::Error::custom)
    }
}

/// Reads `T` from an object. A derived deserializer alone would take an array for a struct too.
fn object_only<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct ObjectOnly<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectOnly<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(ObjectOnly(PhantomData))
}
