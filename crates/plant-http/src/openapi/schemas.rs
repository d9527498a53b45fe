//! The shapes of bodies.

use plant_domain::{Error, NAME_MAX_CHARACTERS, TAG_MAX_CHARACTERS};
use serde_json::json;
use utoipa::openapi::schema::{AnyOfBuilder, SchemaType};
use utoipa::openapi::{
    Array, ArrayBuilder, KnownFormat, Object, ObjectBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
};

use crate::errors::{ErrorNumber, ErrorRow, Failure};
use crate::limits::{PAGE_MAX_PLANTS, REPORT_MAX_ERRORS};

/// What a name and a tag match, as a regular expression of ECMA-262: no control characters (Unicode's
/// general category Cc), and at least one character that is not white space (Unicode's White_Space).
const TEXT_PATTERN: &str = concat!(
    r"^[^\u0000-\u001f\u007f-\u009f]*",
    r"[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]",
    r"[^\u0000-\u001f\u007f-\u009f]*$"
);

/// A shape that has a name in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Plant,
    NewPlant,
    PlantWithNullableTag,
    NewPlantWithNullableTag,
    PlantPatch,
    Error,
    ImportReport,
    FailedRow,
}

impl Shape {
    const ALL: [Self; 8] = [
        Self::Plant,
        Self::NewPlant,
        Self::PlantWithNullableTag,
        Self::NewPlantWithNullableTag,
        Self::PlantPatch,
        Self::Error,
        Self::ImportReport,
        Self::FailedRow,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Plant => "Plant",
            Self::NewPlant => "NewPlant",
            Self::PlantWithNullableTag => "PlantWithNullableTag",
            Self::NewPlantWithNullableTag => "NewPlantWithNullableTag",
            Self::PlantPatch => "PlantPatch",
            Self::Error => "Error",
            Self::ImportReport => "ImportReport",
            Self::FailedRow => "FailedRow",
        }
    }

    fn schema(self) -> Object {
        match self {
            Self::Plant => object("A plant without its id.", &["name"])
                .property("name", name())
                .property("tag", described_tag()),
            Self::NewPlant => object("A plant with its id.", &["id", "name"])
                .property("id", id())
                .property("name", name())
                .property("tag", described_tag()),
            Self::PlantWithNullableTag => {
                object("A Plant whose tag may also be `null`, meaning no tag.", &["name"])
                    .property("name", name())
                    .property("tag", nullable(described_tag()))
            }
            Self::NewPlantWithNullableTag => {
                object("A NewPlant whose tag may also be `null`, meaning no tag.", &["id", "name"])
                    .property("id", id())
                    .property("name", name())
                    .property("tag", nullable(described_tag()))
            }
            Self::PlantPatch => {
                let tag = tag().description(Some("The new tag; `null` removes the tag."));
                object("What is to change in a plant: a merge patch (RFC 7396).", &[])
                    .property("name", name().description(Some("The new name.")))
                    .property("tag", nullable(tag))
            }
            Self::Error => object(&error_description(), &["error", "message"])
                .property("error", error_number())
                .property("message", message()),
            Self::ImportReport => {
                let errors =
                    format!("The first {REPORT_MAX_ERRORS} of the rows that were not taken.");
                object(
                    "What became of the rows of an import.",
                    &["created", "replaced", "skipped", "failed", "errors"],
                )
                .property("created", count("How many plants are new."))
                .property("replaced", count("How many took the place of one that existed."))
                .property("skipped", count("How many were left out because their id was taken."))
                .property("failed", count("How many rows were not taken."))
                .property(
                    "errors",
                    array_of(Self::FailedRow, REPORT_MAX_ERRORS).description(Some(errors)),
                )
            }
            Self::FailedRow => object("A row that was not taken.", &["line", "error", "message"])
                .property(
                    "line",
                    count("The line that it begins in; the first one is 1.").minimum(Some(1)),
                )
                .property("error", error_number())
                .property("message", message()),
        }
        .build()
    }

    /// Where it is named.
    pub(super) fn reference(self) -> RefOr<Schema> {
        Ref::from_schema_name(self.name()).into()
    }
}

/// All shapes that have a name.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Schema)> {
    Shape::ALL.into_iter().map(|shape| (shape.name(), Schema::Object(shape.schema())))
}

/// Any of several shapes.
pub(super) fn any_of(shapes: &[Shape]) -> RefOr<Schema> {
    match shapes {
        [shape] => shape.reference(),
        _ => {
            shapes.iter().fold(AnyOfBuilder::new(), |any, shape| any.item(shape.reference())).into()
        }
    }
}

/// An array of any length, each of whose elements is any of several shapes.
pub(super) fn array_of_any(shapes: &[Shape]) -> RefOr<Schema> {
    Array::builder().items(any_of(shapes)).into()
}

/// What a page of a list is.
pub(super) fn page() -> RefOr<Schema> {
    array_of(Shape::NewPlant, PAGE_MAX_PLANTS).into()
}

/// Text that nothing more is said of.
pub(super) fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A body of any length, which a client sends or takes part by part.
pub(super) fn file(description: impl Into<String>) -> ObjectBuilder {
    text()
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
        .description(Some(description))
}

/// An integer that nothing more is said of.
pub(super) fn integer() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer)
}

/// The id of a plant: any int64. Its bounds are not numbers that JavaScript can hold, so the format says them.
pub(super) fn plant_id() -> ObjectBuilder {
    integer().format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64))).examples([json!(7)])
}

/// The tag of a plant.
pub(super) fn tag() -> ObjectBuilder {
    plant_text(TAG_MAX_CHARACTERS).examples([json!("Rosaceae")])
}

fn id() -> ObjectBuilder {
    plant_id().description(Some(
        "The identification number of the plant, written without a fraction or an exponent.",
    ))
}

fn described_tag() -> ObjectBuilder {
    tag().description(Some("The tag that specifies the type of the plant."))
}

fn name() -> ObjectBuilder {
    plant_text(NAME_MAX_CHARACTERS)
        .description(Some("The name of the plant."))
        .examples([json!("Rosa canina")])
}

fn plant_text(max_characters: u64) -> ObjectBuilder {
    bounded_text(max_characters).pattern(Some(TEXT_PATTERN))
}

/// Text with at least one and at most so many characters (Unicode scalar values).
pub(super) fn bounded_text(max_characters: u64) -> ObjectBuilder {
    let max_characters = usize::try_from(max_characters).expect("a limit fits into memory");
    text().min_length(Some(1)).max_length(Some(max_characters))
}

/// What each number means, and what a client can do about it.
fn error_description() -> String {
    let lines = ErrorNumber::ALL.iter().map(|number| {
        let ErrorRow { meaning, advice, .. } = number.row();
        format!("- `{}`: {meaning}. What to do: {advice}.", *number as i32)
    });
    format!("What went wrong.\n\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn error_number() -> ObjectBuilder {
    integer()
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .description(Some("What went wrong, as a number that programs branch on."))
        .examples([json!(example_error().error)])
}

fn message() -> ObjectBuilder {
    text()
        .description(Some("What went wrong and what to do about it, for people."))
        .examples([json!(example_error().message)])
}

/// The error of a create whose id is taken.
pub(super) fn example_error() -> Error {
    Failure::from(ErrorNumber::IdTaken).error()
}

fn count(description: &str) -> ObjectBuilder {
    integer()
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(0))
        .description(Some(description))
}

fn nullable(text: ObjectBuilder) -> ObjectBuilder {
    text.schema_type(SchemaType::from_iter([Type::String, Type::Null]))
}

fn object(description: &str, required: &[&str]) -> ObjectBuilder {
    required.iter().fold(
        ObjectBuilder::new().schema_type(Type::Object).description(Some(description)),
        |object, member| object.required(*member),
    )
}

fn array_of(shape: Shape, max_items: usize) -> ArrayBuilder {
    Array::builder().items(shape.reference()).max_items(Some(max_items))
}

#[cfg(test)]
mod tests {
    use plant_domain::Plant;
    use regress::Regex;

    use super::*;

    #[test]
    fn the_pattern_takes_what_the_rules_take_whatever_the_character() {
        let pattern = Regex::with_flags(TEXT_PATTERN, "u").expect("a regular expression");
        let check = |text: String| {
            let matches = pattern.find(&text).is_some();
            let plant = Plant::new(text.clone(), None);
            assert_eq!(matches, plant.is_ok(), "{text:?}");
        };
        for character in '\0'..=char::MAX {
            check(character.to_string());
        }
        // Those beyond are neither controls nor white space, alone or not.
        for character in '\0'..='\u{ffff}' {
            check(format!("a{character}a"));
        }
    }
}
