//! A search for plants.

use unicase::UniCase;

use crate::{Violations, rules};

/// Selects plants by exact tag, by a part of the folded name (see [`fold_name`]), or both. The default selects every
/// plant.
///
/// ```
/// use plant_domain::PlantFilter;
///
/// let roses = PlantFilter::new(Some("ROSA"), None)?;
/// assert!(roses.matches("Rosa canina", Some("Rosaceae")));
/// assert!(!roses.matches("Salix alba", None));
/// # Ok::<(), plant_domain::Violations>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlantFilter {
    folded_name_part: Option<String>,
    tag: Option<String>,
}

impl PlantFilter {
    /// A filter by a part of the name, by a tag, or both.
    ///
    /// # Errors
    ///
    /// The rule about the length of a name, if `name_part` breaks it, and every rule that `tag` breaks. A part of a
    /// name may be blank.
    pub fn new(name_part: Option<&str>, tag: Option<String>) -> Result<Self, Violations> {
        name_part.map_or(Ok(()), rules::check_name_part)?;
        tag.as_deref().map_or(Ok(()), rules::check_tag)?;
        Ok(Self { folded_name_part: name_part.map(fold_name), tag })
    }

    /// Whether the filter selects every plant.
    #[must_use]
    pub const fn matches_all(&self) -> bool {
        self.folded_name_part.is_none() && self.tag.is_none()
    }

    /// The tag that a plant must have, if any.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The part that the folded name must contain, if any.
    #[must_use]
    pub fn folded_name_part(&self) -> Option<&str> {
        self.folded_name_part.as_deref()
    }

    /// Whether the filter selects a plant with this name and tag.
    #[must_use]
    pub fn matches(&self, name: &str, tag: Option<&str>) -> bool {
        let tag_matches = self.tag.is_none() || self.tag.as_deref() == tag;
        tag_matches
            && self.folded_name_part.as_ref().is_none_or(|part| fold_name(name).contains(part))
    }
}

/// Folds a name by the full case folding of Unicode. All stores fold with this function, so all find the same plants.
///
/// ```
/// use plant_domain::fold_name;
///
/// assert_eq!(fold_name("ROSA × Damascena"), "rosa × damascena");
/// // A final sigma folds to the same letter as any other sigma.
/// assert_eq!(fold_name("ΑΣ"), fold_name("ας"));
/// assert_eq!(fold_name("Straße"), fold_name("STRASSE"));
/// ```
#[must_use]
pub fn fold_name(name: &str) -> String {
    UniCase::new(name).to_folded_case()
}
