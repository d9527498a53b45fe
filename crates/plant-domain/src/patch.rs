//! A change to some members of a plant.

use crate::{Plant, Violations, rules};

/// What someone says is to change in a plant. It becomes a [`PlantPatch`] by
/// [`PlantPatch::try_from`].
///
/// ```
/// use plant_domain::{PlantPatch, TagPatch, UncheckedPlantPatch};
///
/// let unchecked = UncheckedPlantPatch { name: Some(" ".to_owned()), tag: TagPatch::Keep };
/// assert!(PlantPatch::try_from(unchecked).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UncheckedPlantPatch {
    /// The new name, unchecked; `None` keeps the one that the plant has.
    pub name: Option<String>,
    /// What becomes of the tag, unchecked.
    pub tag: TagPatch,
}

/// What becomes of a plant's tag.
///
/// ```
/// assert_eq!(plant_domain::TagPatch::default(), plant_domain::TagPatch::Keep);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TagPatch {
    /// It stays as it is.
    #[default]
    Keep,
    /// The plant has no tag any more.
    Remove,
    /// The plant has this tag.
    Set(String),
}

/// A valid change to some members of a plant: whatever plant it is applied to, the result is valid
/// too, because each member has rules of its own.
///
/// ```
/// use plant_domain::{Plant, PlantPatch, TagPatch, UncheckedPlantPatch};
///
/// let rose: Plant = serde_json::from_str(r#"{"name":"Rosa","tag":"Rosaceae"}"#)?;
/// let patch = PlantPatch::try_from(UncheckedPlantPatch { name: None, tag: TagPatch::Remove })?;
/// assert_eq!(serde_json::to_string(&patch.apply(&rose))?, r#"{"name":"Rosa"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantPatch {
    name: Option<String>,
    tag: TagPatch,
}

impl PlantPatch {
    /// The plant as it is after the change.
    ///
    /// ```
    /// # use plant_domain::{Plant, PlantPatch, TagPatch, UncheckedPlantPatch};
    /// let rose: Plant = serde_json::from_str(r#"{"name":"Rosa"}"#)?;
    /// let nothing = PlantPatch::try_from(UncheckedPlantPatch::default())?;
    /// assert_eq!(nothing.apply(&rose), rose);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn apply(&self, plant: &Plant) -> Plant {
        let (name, tag) = self.apply_to_parts(&plant.name, plant.tag());
        Plant { name: name.to_owned(), tag: tag.map(str::to_owned) }
    }

    /// The name and the tag that a plant with this name and tag has after the change, for stores that
    /// have them apart.
    ///
    /// ```
    /// # use plant_domain::{PlantPatch, UncheckedPlantPatch};
    /// let nothing = PlantPatch::try_from(UncheckedPlantPatch::default())?;
    /// assert_eq!(nothing.apply_to_parts("Rosa", None), ("Rosa", None));
    /// # Ok::<(), plant_domain::Violations>(())
    /// ```
    #[must_use]
    pub fn apply_to_parts<'a>(
        &'a self,
        name: &'a str,
        tag: Option<&'a str>,
    ) -> (&'a str, Option<&'a str>) {
        let name = self.name.as_deref().unwrap_or(name);
        let tag = match &self.tag {
            TagPatch::Keep => tag,
            TagPatch::Remove => None,
            TagPatch::Set(tag) => Some(tag.as_str()),
        };
        (name, tag)
    }
}

impl TryFrom<UncheckedPlantPatch> for PlantPatch {
    type Error = Violations;

    fn try_from(unchecked: UncheckedPlantPatch) -> Result<Self, Violations> {
        let UncheckedPlantPatch { name, tag } = unchecked;
        let new_tag = match &tag {
            TagPatch::Set(tag) => Some(tag.as_str()),
            TagPatch::Keep | TagPatch::Remove => None,
        };
        rules::check(name.as_deref(), new_tag)?;
        Ok(Self { name, tag })
    }
}
