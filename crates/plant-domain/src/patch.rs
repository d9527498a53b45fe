//! A change to some members of a plant.

use crate::{Plant, Violations, rules};

/// A change to a plant's tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TagPatch {
    /// Leaves the tag as it is.
    #[default]
    Keep,
    /// Removes the tag.
    Remove,
    /// Sets this tag.
    Set(String),
}

/// A valid change to some members of a plant. The result of applying it is always valid, because each rule concerns
/// only one member.
///
/// ```
/// use plant_domain::{Plant, PlantPatch, TagPatch};
///
/// let rose = Plant::new("Rosa", Some("Rosaceae".to_owned()))?;
/// let patch = PlantPatch::new(None, TagPatch::Remove)?;
/// assert_eq!(patch.apply(&rose), Plant::new("Rosa", None)?);
/// # Ok::<(), plant_domain::Violations>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantPatch {
    name: Option<String>,
    tag: TagPatch,
}

impl PlantPatch {
    /// Sets the name, if one is given, and changes the tag.
    ///
    /// # Errors
    ///
    /// Every rule that the new name or the new tag breaks.
    pub fn new(name: Option<String>, tag: TagPatch) -> Result<Self, Violations> {
        let new_tag = match &tag {
            TagPatch::Set(tag) => Some(tag.as_str()),
            TagPatch::Keep | TagPatch::Remove => None,
        };
        rules::check(name.as_deref(), new_tag)?;
        Ok(Self { name, tag })
    }

    /// The plant after the change.
    #[must_use]
    pub fn apply(&self, plant: &Plant) -> Plant {
        let name = self.name.as_deref().unwrap_or(plant.name());
        let tag = match &self.tag {
            TagPatch::Keep => plant.tag(),
            TagPatch::Remove => None,
            TagPatch::Set(tag) => Some(tag.as_str()),
        };
        Plant::of_valid(name.to_owned(), tag.map(str::to_owned))
    }
}
