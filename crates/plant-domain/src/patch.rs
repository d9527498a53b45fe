//! A change to some members of a plant.

use crate::{Plant, PlantRef, Violations, rules};

/// A change to a member that a plant may lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TextPatch {
    /// Leaves the member as it is.
    #[default]
    Keep,
    /// Removes the member.
    Remove,
    /// Sets this text.
    Set(String),
}

/// A change to each member of a plant. [`Self::check`] makes a valid patch from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlantChanges {
    /// The new name, if there is one.
    pub name: Option<String>,
    /// What happens to the tag.
    pub tag: TextPatch,
}

/// A valid change to some members of a plant. The result of applying it is always valid, because each rule concerns
/// only one member.
///
/// ```
/// use plant_domain::{Plant, PlantPatch, TextPatch};
///
/// let rose = Plant::new("Rosa", Some("Rosaceae".to_owned()))?;
/// let patch = PlantPatch::new(None, TextPatch::Remove)?;
/// assert_eq!(patch.apply(&rose), Plant::new("Rosa", None)?);
/// # Ok::<(), plant_domain::Violations>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantPatch(PlantChanges);

impl PlantPatch {
    /// Sets the name, if one is given, and changes the tag. [`PlantChanges`] has every member.
    ///
    /// # Errors
    ///
    /// Every rule that the new name or the new tag breaks.
    pub fn new(name: Option<String>, tag: TextPatch) -> Result<Self, Violations> {
        PlantChanges { name, tag }.check()
    }

    /// The plant after the change.
    #[must_use]
    pub fn apply(&self, plant: &Plant) -> Plant {
        let PlantChanges { name, tag } = &self.0;
        let before = plant.members();
        let after =
            PlantRef { name: name.as_deref().unwrap_or(before.name), tag: tag.apply(before.tag) };
        after.to_valid_plant()
    }
}

impl PlantChanges {
    /// The patch with these changes.
    ///
    /// # Errors
    ///
    /// Every rule that a new text breaks.
    pub fn check(self) -> Result<PlantPatch, Violations> {
        let Self { name, tag } = &self;
        rules::check([name.as_deref(), tag.apply(None)])?;
        Ok(PlantPatch(self))
    }
}

impl TextPatch {
    /// The text after the change.
    fn apply<'a>(&'a self, before: Option<&'a str>) -> Option<&'a str> {
        match self {
            Self::Keep => before,
            Self::Remove => None,
            Self::Set(text) => Some(text),
        }
    }
}
