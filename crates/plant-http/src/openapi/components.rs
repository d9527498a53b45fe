//! The named parts of the document: schemas, headers, and the parameter that every request may have.

use plant_domain::{Error, NAME_MAX_CHARACTERS, TAG_MAX_CHARACTERS};
use serde_json::{Map, Value, json};

use crate::errors::{ErrorNumber, ErrorRow, Failure, INVALID_TOKEN_CHALLENGE};
use crate::limits::{REPORT_MAX_ERRORS, REQUEST_ID_MAX_CHARACTERS};

/// The pattern of names and tags, as an ECMA-262 regular expression: no control characters (Unicode's general category
/// Cc), and at least one character that is not white space (Unicode's White_Space).
const TEXT_PATTERN: &str = concat!(
    r"^[^\u0000-\u001f\u007f-\u009f]*",
    r"[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]",
    r"[^\u0000-\u001f\u007f-\u009f]*$"
);

const REQUEST_ID_EXAMPLE: &str = "0199d7a0-51c4-7c63-8f0a-3b1f2b7d9e11";

/// A header of answers: its name in HTTP, and its name in the document.
pub(super) type AnswerHeader = (&'static str, &'static str);

const REQUEST_ID: AnswerHeader = ("X-Request-Id", "RequestId");
pub(super) const CHALLENGE: AnswerHeader = ("WWW-Authenticate", "Challenge");
pub(super) const FILE_ENTITY_TAG: AnswerHeader = ("ETag", "FileEntityTag");
pub(super) const LOCATION: AnswerHeader = ("Location", "Location");
pub(super) const NEXT_PAGE: AnswerHeader = ("Link", "NextPage");
pub(super) const PLANT_ENTITY_TAG: AnswerHeader = ("ETag", "PlantEntityTag");
pub(super) const RETRY_AFTER: AnswerHeader = ("Retry-After", "RetryAfter");
pub(super) const TOTAL_COUNT: AnswerHeader = ("X-Total-Count", "TotalCount");
pub(super) const UPGRADE: AnswerHeader = ("Upgrade", "Upgrade");

/// The headers of an answer: these, and the one that every answer has.
pub(super) fn headers(headers: &[AnswerHeader]) -> Map<String, Value> {
    let reference = |(field, name): &AnswerHeader| {
        ((*field).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))
    };
    headers.iter().chain([&REQUEST_ID]).map(reference).collect()
}

/// A reference to a schema.
pub(super) fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A reference to the parameter that every operation has.
pub(super) fn request_id_reference() -> Value {
    json!({"$ref": "#/components/parameters/RequestId"})
}

pub(super) fn all_parameters() -> Value {
    json!({
        "RequestId": {
            "name": REQUEST_ID.0,
            "in": "header",
            "description": format!(
                "An id for the request, which the answer and the server's log repeat. One that does not have 1 to \
                 {REQUEST_ID_MAX_CHARACTERS} visible ASCII characters is replaced by one that the server makes."
            ),
            "required": false,
            "schema": {"type": "string", "examples": [REQUEST_ID_EXAMPLE]},
        },
    })
}

pub(super) fn all_headers() -> Value {
    json!({
        "Challenge": {
            "schema": {"type": "string"},
            "description": "How to authenticate (RFC 6750, section 3).",
            "example": INVALID_TOKEN_CHALLENGE,
        },
        "FileEntityTag": {
            "schema": {"type": "string", "pattern": r#"^"[\w-]+"$"#},
            "description": "The file's strong entity tag.",
            "example": "\"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU\"",
        },
        "Location": {
            "schema": {"type": "string"},
            "description": "The plant: a path from the server's root.",
            "example": "/plants/7",
        },
        "NextPage": {
            "schema": {"type": "string"},
            "description":
                "The next page (RFC 8288): a path from the server's root. Absent on the last page.",
            "example": "</plants?limit=100&after=7>; rel=\"next\"",
        },
        "PlantEntityTag": {
            "schema": {"type": "string", "pattern": r#"^"\d+"$"#},
            "description":
                "The plant's revision: a strong entity tag that is never used again, not even for a plant that is \
                 deleted and created anew. The answer to a repeated create has none if the plant has changed since.",
            "example": "\"42\"",
        },
        "RequestId": {
            "schema": {"type": "string"},
            "description":
                "The id of the request, as the client sent it or as the server made it. The server's log has it too.",
            "example": REQUEST_ID_EXAMPLE,
        },
        "RetryAfter": {
            "schema": {"type": "integer", "minimum": 0},
            "description": "The number of seconds after which the request may be sent again.",
            "example": 1,
        },
        "TotalCount": {
            "schema": {"type": "integer", "minimum": 0},
            "description": "How many plants there are. A list with a filter does not have this header.",
            "example": 48994,
        },
        "Upgrade": {
            "schema": {"type": "string"},
            "description": "The version of HTTP that the request needs (RFC 9110, section 15.5.22).",
            "example": "HTTP/1.1",
        },
    })
}

pub(super) fn all_schemas() -> Value {
    let mut id = plant_id();
    id["description"] =
        json!("The identification number of the plant, written without a fraction or an exponent.");
    let name =
        |description| plant_text(json!("string"), description, "Rosa canina", NAME_MAX_CHARACTERS);
    let tag = |types, description| plant_text(types, description, "Rosaceae", TAG_MAX_CHARACTERS);
    let nullable = json!(["string", "null"]);
    let plant_name = name("The name of the plant.");
    let plant_tag = tag(json!("string"), PLANT_TAG);
    let nullable_tag = tag(nullable.clone(), PLANT_TAG);
    let Error { error, message } = example_error();
    let number = json!({
        "type": "integer",
        "format": "int32",
        "description": "What went wrong, as a number that programs branch on.",
        "examples": [error],
    });
    let message = json!({
        "type": "string",
        "description": "What went wrong and what to do about it, for people.",
        "examples": [message],
    });
    let count = |minimum: u64, description: &str| {
        json!({
            "type": "integer",
            "format": "int64",
            "description": description,
            "minimum": minimum,
        })
    };
    json!({
        "Error": {
            "type": "object",
            "description": error_description(),
            "required": ["error", "message"],
            "properties": {"error": number, "message": message},
        },
        "FailedRow": {
            "type": "object",
            "description": "A row that was not taken.",
            "required": ["line", "error", "message"],
            "properties": {
                "error": number,
                "line": count(1, "The line in which the row begins; the first line is 1."),
                "message": message,
            },
        },
        "ImportReport": {
            "type": "object",
            "description": "The result of an import, row by row.",
            "required": ["created", "replaced", "skipped", "failed", "errors"],
            "properties": {
                "created": count(0, "How many plants are new."),
                "errors": {
                    "type": "array",
                    "items": schema("FailedRow"),
                    "description": format!("The first {REPORT_MAX_ERRORS} rows that were not taken."),
                    "maxItems": REPORT_MAX_ERRORS,
                },
                "failed": count(0, "How many rows were not taken."),
                "replaced": count(0, "How many plants replaced one that existed."),
                "skipped": count(0, "How many were left out because their id was taken."),
            },
        },
        "NewPlant": {
            "type": "object",
            "description": "A plant with its id.",
            "required": ["id", "name"],
            "properties": {"id": id, "name": plant_name, "tag": plant_tag},
        },
        "NewPlantWithNullableTag": {
            "type": "object",
            "description": "A NewPlant whose tag may also be `null`, meaning no tag.",
            "required": ["id", "name"],
            "properties": {"id": id, "name": plant_name, "tag": nullable_tag},
        },
        "Plant": {
            "type": "object",
            "description": "A plant without its id.",
            "required": ["name"],
            "properties": {"name": plant_name, "tag": plant_tag},
        },
        "PlantPatch": {
            "type": "object",
            "description": "The changes to a plant: a merge patch (RFC 7396).",
            "properties": {
                "name": name("The new name."),
                "tag": tag(nullable, "The new tag; `null` removes the tag."),
            },
        },
        "PlantWithNullableTag": {
            "type": "object",
            "description": "A Plant whose tag may also be `null`, meaning no tag.",
            "required": ["name"],
            "properties": {"name": plant_name, "tag": nullable_tag},
        },
    })
}

const PLANT_TAG: &str = "The tag that specifies the type of the plant.";

/// The id of a plant: any int64. JavaScript cannot hold its bounds as numbers, so only the format expresses them.
pub(super) fn plant_id() -> Value {
    json!({"type": "integer", "format": "int64", "examples": [7]})
}

/// A name or a tag. Its length counts Unicode scalar values.
pub(super) fn plant_text(
    types: Value,
    description: &str,
    example: &str,
    max_characters: u64,
) -> Value {
    json!({
        "type": types,
        "description": description,
        "examples": [example],
        "maxLength": max_characters,
        "minLength": 1,
        "pattern": TEXT_PATTERN,
    })
}

/// Each number with its meaning, and what a client can do about it.
fn error_description() -> String {
    let lines = ErrorNumber::ALL.iter().map(|number| {
        let ErrorRow { meaning, advice, .. } = number.row();
        format!("- `{}`: {meaning}. What to do: {advice}.", *number as i32)
    });
    format!("What went wrong.\n\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// The error of a create whose id is taken.
pub(super) fn example_error() -> Error {
    Failure::from(ErrorNumber::IdTaken).error()
}

#[cfg(test)]
mod tests {
    use plant_domain::Plant;
    use regress::Regex;

    use super::*;

    #[test]
    fn the_pattern_accepts_exactly_what_the_rules_accept_for_every_character() {
        let pattern = Regex::with_flags(TEXT_PATTERN, "u").expect("a regular expression");
        let check = |text: String| {
            let matches = pattern.find(&text).is_some();
            let plant = Plant::new(text.clone(), None);
            assert_eq!(matches, plant.is_ok(), "{text:?}");
        };
        for character in '\0'..=char::MAX {
            check(character.to_string());
        }
        // Characters beyond these are neither controls nor white space, alone or not.
        for character in '\0'..='\u{ffff}' {
            check(format!("a{character}a"));
        }
    }
}
