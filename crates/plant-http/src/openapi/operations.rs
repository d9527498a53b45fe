//! The requests and the answers of each operation.

use plant_domain::{NAME_MAX_CHARACTERS, Plant, PlantPatch, TAG_MAX_CHARACTERS};
use plant_store::OnConflict;
use serde_json::{Map, Value, json};

use crate::errors::ErrorNumber::{
    self, BodyTooLarge, Busy, IdTaken, NoSuchPlant, NotJson, OldVersion, PreconditionFailed,
    Refused, RuleBroken, StoreFailed, WrongContentType, WrongParameter, WrongShape,
};
use crate::extract::body::not_whole;
use crate::extract::json;
use crate::extract::media_type::{JSON, MERGE_PATCH};
use crate::extract::query::{on_conflict as read_on_conflict, wrong_limit};
use crate::extract::rows::wrong_header;
use crate::extract::transfer_format::{CSV_HEADER, TransferFormat};
use crate::handlers::import_report::{FailedRow, ImportReport};
use crate::limits::{
    BODY_IDLE_DEADLINE, BODY_MAX_BYTES, ENTITY_TAGS_MAX, IDEMPOTENCY_KEY_MAX_CHARACTERS,
    PAGE_DEFAULT_PLANTS, PAGE_MAX_PLANTS, ROW_MAX_BYTES,
};

use super::components::{
    FILE_ENTITY_TAG, LOCATION, NEXT_PAGE, PLANT_ENTITY_TAG, TOTAL_COUNT, example_error, headers,
    plant_id, plant_text, schema,
};
use super::operation::Operation;

/// The version of the interface (specification, section "Versioning"), which is not the version of this program.
pub(super) const API_VERSION: &str = "1.0.0";

/// The groups of operations.
pub(super) const PLANTS: &str = "Plants";
pub(super) const IMPORT_AND_EXPORT: &str = "Import and export";
pub(super) const SERVER: &str = "Server";

const CREATE: &str = "createPlant";
const READ: &str = "readPlant";
const PUT: &str = "putPlant";
const PATCH: &str = "patchPlant";
const DELETE: &str = "deletePlant";

const JSON_BODY_FAILURES: &[ErrorNumber] =
    &[NotJson, WrongContentType, BodyTooLarge, WrongShape, RuleBroken];

/// The failures of one row of an import.
const ROW_FAILURES: [ErrorNumber; 6] =
    [NotJson, BodyTooLarge, WrongShape, RuleBroken, IdTaken, Refused];

const STORE_FAILURES: &[ErrorNumber] = &[StoreFailed, Busy];

/// The failures of the store when it writes one plant.
const WRITE_FAILURES: &[ErrorNumber] = &[StoreFailed, Busy, Refused];

/// The rules for a body that no schema can express.
const MEMBERS: &str = "`id`, `name` and `tag` may each appear once; other members are ignored.";

pub(crate) fn create_plant() -> Operation {
    Operation {
        id: CREATE,
        tag: PLANTS,
        summary: "Create a plant",
        description: format!(
            "Creates the plant, unless its id is taken. When the answer arrives, the plant is on disk. \
             The body may be at most {BODY_MAX_BYTES} bytes. {MEMBERS}"
        ),
        parameters: vec![idempotency_key()],
        body: json!({
            JSON: {
                "schema": any_of(["NewPlant", "NewPlantWithNullableTag"]),
                "examples": {
                    "tagged": {"summary": "A plant with a tag", "value": new_plant()},
                    "untagged": {"summary": "A plant without one", "value": untagged_plant()},
                },
            },
        }),
        answers: json!({
            "200": {
                "description": "The plant as it was stored.",
                "headers": headers(&[PLANT_ENTITY_TAG, LOCATION]),
                "content": plant_content(),
                "links": links("$request.body#/id", &[READ, PUT, PATCH, DELETE]),
            },
        }),
        failures: [JSON_BODY_FAILURES, WRITE_FAILURES, &[WrongParameter, IdTaken]].concat(),
        ..Operation::default()
    }
}

pub(crate) fn list_plants() -> Operation {
    let limit = json!({
        "type": "integer",
        "default": PAGE_DEFAULT_PLANTS,
        "maximum": PAGE_MAX_PLANTS,
        "minimum": 1,
    });
    let page = json!({
        "type": "array",
        "items": schema("NewPlant"),
        "maxItems": PAGE_MAX_PLANTS,
    });
    let tag = "Return only plants with exactly this tag.";
    let name = json!({
        "type": "string",
        "examples": ["rosa"],
        "maxLength": NAME_MAX_CHARACTERS,
        "minLength": 1,
    });
    Operation {
        id: "listPlants",
        tag: PLANTS,
        summary: "List plants",
        description:
            "The plants by ascending id, page by page. While there may be more, the answer has a `Link` with \
             `rel=\"next\"`: follow it until there is none. The work for one page is bounded, so with a filter a page \
             may be short or even empty before the end."
                .to_owned(),
        parameters: vec![
            query("limit", "How many plants the page has at most.", limit),
            query("after", "Return only plants whose id is greater than this.", plant_id()),
            query("tag", tag, plant_text(json!("string"), tag, "Rosaceae", TAG_MAX_CHARACTERS)),
            query("name", "Return only plants whose name contains this, ignoring case.", name),
        ],
        answers: json!({
            "200": {
                "description": "One page.",
                "headers": headers(&[NEXT_PAGE, TOTAL_COUNT]),
                "content": {JSON: media(page, "page", "A page of two plants", two_plants())},
            },
        }),
        failures: [STORE_FAILURES, &[WrongParameter]].concat(),
        examples: vec![wrong_limit()],
        ..Operation::default()
    }
}

pub(crate) fn read_plant() -> Operation {
    Operation {
        id: READ,
        tag: PLANTS,
        summary: "Read a plant",
        description:
            "The plant as it is on disk. With `If-None-Match`, 304 if the client has it already."
                .to_owned(),
        parameters: preconditions(),
        answers: json!({
            "200": {
                "description": "The plant.",
                "headers": headers(&[PLANT_ENTITY_TAG]),
                "content": {JSON: media(schema("NewPlant"), "plant", "A plant", new_plant())},
                "links": links("$request.path.id", &[PUT, PATCH, DELETE]),
            },
            "304": {
                "description": "The client has the plant as it is.",
                "headers": headers(&[PLANT_ENTITY_TAG]),
            },
        }),
        failures: [STORE_FAILURES, &[WrongParameter, NoSuchPlant, PreconditionFailed]].concat(),
        ..Operation::default()
    }
}

pub(crate) fn put_plant() -> Operation {
    Operation {
        id: PUT,
        tag: PLANTS,
        summary: "Create or replace a plant",
        description: format!(
            "Makes the plant what the body says, whether it existed or not; safe to send again. \
             `If-None-Match: *` creates a plant or does nothing. A change that changes nothing keeps the ETag. \
             The body may be at most {BODY_MAX_BYTES} bytes, and may have an `id`, which must be that of the path. \
             {MEMBERS}"
        ),
        parameters: preconditions(),
        body: json!({
            JSON: media(any_of(["Plant", "PlantWithNullableTag"]), "plant", "A plant", plant()),
        }),
        answers: json!({
            "200": {
                "description": "The plant existed, and is now as it was sent.",
                "headers": headers(&[PLANT_ENTITY_TAG]),
                "content": plant_content(),
                "links": links("$request.path.id", &[READ, PATCH, DELETE]),
            },
            "201": {
                "description": "The plant is new.",
                "headers": headers(&[PLANT_ENTITY_TAG, LOCATION]),
                "content": plant_content(),
                "links": links("$request.path.id", &[READ, PATCH, DELETE]),
            },
        }),
        failures: [JSON_BODY_FAILURES, WRITE_FAILURES, &[WrongParameter, PreconditionFailed]]
            .concat(),
        examples: vec![json::read::<Plant>(b"{}").expect_err("it has no name")],
    }
}

pub(crate) fn patch_plant() -> Operation {
    let content = json!({
        "schema": schema("PlantPatch"),
        "examples": {
            "rename": {"summary": "Another name", "value": {"name": "Rosa rubiginosa"}},
            "removeTag": {"summary": "No tag any more", "value": {"tag": null}},
        },
    });
    Operation {
        id: PATCH,
        tag: PLANTS,
        summary: "Change a plant",
        description: format!(
            "Changes those members of the plant that the body has: a merge patch (RFC 7396). A change that changes \
             nothing keeps the ETag. The body may be at most {BODY_MAX_BYTES} bytes, and may have an `id`, which must \
             be that of the path. {MEMBERS}"
        ),
        parameters: preconditions(),
        body: json!({MERGE_PATCH: content, JSON: content}),
        answers: json!({
            "200": {
                "description": "The plant as it is now.",
                "headers": headers(&[PLANT_ENTITY_TAG]),
                "content": plant_content(),
                "links": links("$request.path.id", &[READ, DELETE]),
            },
        }),
        failures: [
            JSON_BODY_FAILURES,
            WRITE_FAILURES,
            &[WrongParameter, NoSuchPlant, PreconditionFailed],
        ]
        .concat(),
        examples: vec![json::read::<PlantPatch>(br#"{"tag":7}"#).expect_err("it is no text")],
    }
}

pub(crate) fn delete_plant() -> Operation {
    Operation {
        id: DELETE,
        tag: PLANTS,
        summary: "Delete a plant",
        description: "The plant is gone from disk when the answer arrives.".to_owned(),
        parameters: preconditions(),
        answers: json!({
            "204": {
                "description": "The plant is gone.",
                "headers": headers(&[]),
                "links": links("$request.path.id", &[READ]),
            },
        }),
        failures: [WRITE_FAILURES, &[WrongParameter, NoSuchPlant, PreconditionFailed]].concat(),
        ..Operation::default()
    }
}

pub(crate) fn import_plants() -> Operation {
    let ways = [OnConflict::Error, OnConflict::Skip, OnConflict::Replace];
    let on_conflict = json!({
        "type": "string",
        "default": OnConflict::default().to_string(),
        "enum": ways.map(|way| way.to_string()),
    });
    let seconds = BODY_IDLE_DEADLINE.as_secs();
    let [id, name, tag] = CSV_HEADER;
    let header = CSV_HEADER.join(",");
    let row_failures = ROW_FAILURES.map(|number| (number as i32).to_string()).join(", ");
    let csv = csv_content(
        &format!(
            "with a header that names the columns `{id}`, `{name}` and `{tag}` in any order. An empty {tag} cell is no \
             tag, and the column may be left out."
        ),
        &format!(
            "({id},{name}(,{tag})?|{name},{id}(,{tag})?|{id},{tag},{name}|{name},{tag},{id}|{tag},{id},{name}|\
             {tag},{name},{id})"
        ),
    );
    let array = json!({"type": "array", "items": any_of(["NewPlant", "NewPlantWithNullableTag"])});
    let report = ImportReport {
        created: 1,
        failed: 1,
        errors: vec![FailedRow { line: 2, error: example_error() }],
        ..ImportReport::default()
    };
    let summary = "One row was taken and one was not";
    let report = media(schema("ImportReport"), "report", summary, json!(report));
    Operation {
        id: "importPlants",
        tag: IMPORT_AND_EXPORT,
        summary: "Import plants",
        description: format!(
            "Takes a plant from each row of a body of any length. Each row stands alone: it is on disk when the \
             report comes, or counted as failed, with one of the errors {row_failures}. A row is a line of NDJSON such \
             as `{{\"id\":7,\"name\":\"Rosa canina\"}}`, one of CSV behind a header such as `{header}`, or an element of \
             a JSON array. It may be at most {ROW_MAX_BYTES} bytes. The body may take any time, without a pause of \
             more than {seconds} s. An import that breaks off keeps what it has taken."
        ),
        parameters: vec![query(
            "on_conflict",
            "What to do with an id that is taken: let the row fail, skip it, or replace the plant that is there.",
            on_conflict,
        )],
        body: json!({
            TransferFormat::NdJson.media_type(): ndjson_content(),
            TransferFormat::Csv.media_type(): csv,
            JSON: media(array, "rows", "Two plants", two_plants()),
        }),
        answers: json!({
            "200": {
                "description": "What became of the rows.",
                "headers": headers(&[]),
                "content": {JSON: report},
            },
        }),
        failures: [STORE_FAILURES, &[NotJson, WrongContentType, WrongShape, WrongParameter]]
            .concat(),
        examples: vec![
            not_whole(),
            wrong_header("\"genus\" is unknown"),
            read_on_conflict("on_conflict=ask").expect_err("there is no such way"),
        ],
    }
}

pub(crate) fn export_plants() -> Operation {
    let header = CSV_HEADER.join(",");
    let csv =
        csv_content(&format!("with the header `{header}`. An empty tag cell is no tag."), &header);
    Operation {
        id: "exportPlants",
        tag: IMPORT_AND_EXPORT,
        summary: "Export all plants",
        description:
            "Every plant, by ascending id, in rows that can be imported again: NDJSON, or CSV if `Accept` prefers it. \
             A plant that exists during the whole export comes once, as it was at some moment during it; one that \
             is created or deleted during the export comes once or not at all. A truncated answer is incomplete; \
             HTTP/1.0, in which a client cannot notice that, is refused."
                .to_owned(),
        answers: json!({
            "200": {
                "description": "Every plant.",
                "headers": headers(&[TOTAL_COUNT]),
                "content": {
                    TransferFormat::NdJson.media_type(): ndjson_content(),
                    TransferFormat::Csv.media_type(): csv,
                },
            },
        }),
        failures: [STORE_FAILURES, &[WrongParameter, OldVersion]].concat(),
        ..Operation::default()
    }
}

pub(crate) fn check_live() -> Operation {
    Operation {
        id: "checkLive",
        tag: SERVER,
        summary: "Liveness check",
        description: "Answers as long as the process does its work.".to_owned(),
        answers: ok_answer("The process is running."),
        ..Operation::default()
    }
}

pub(crate) fn check_ready() -> Operation {
    Operation {
        id: "checkReady",
        tag: SERVER,
        summary: "Readiness check",
        description: "Fails if the store cannot take writes, or if the server is shutting down."
            .to_owned(),
        answers: ok_answer("The server takes requests."),
        failures: STORE_FAILURES.to_vec(),
        ..Operation::default()
    }
}

pub(crate) fn read_openapi() -> Operation {
    Operation {
        id: "readOpenapi",
        tag: SERVER,
        summary: "Read this document",
        description: format!(
            "The OpenAPI document of what this server serves. Its version, {API_VERSION}, is that of the interface."
        ),
        parameters: vec![if_none_match()],
        answers: json!({
            "200": {
                "description": "The file.",
                "headers": headers(&[FILE_ENTITY_TAG]),
                "content": {JSON: {"schema": {"type": "object", "title": "Document"}}},
            },
            "304": {
                "description": "The client has the file.",
                "headers": headers(&[FILE_ENTITY_TAG]),
            },
        }),
        ..Operation::default()
    }
}

fn plant() -> Value {
    json!({"name": "Rosa canina", "tag": "Rosaceae"})
}

fn new_plant() -> Value {
    json!({"id": 7, "name": "Rosa canina", "tag": "Rosaceae"})
}

fn untagged_plant() -> Value {
    json!({"id": 8, "name": "Salix alba"})
}

fn two_plants() -> Value {
    json!([new_plant(), untagged_plant()])
}

/// A "Media Type Object" with one example.
fn media(schema: Value, example: &str, summary: &str, value: Value) -> Value {
    json!({"schema": schema, "examples": {example: {"summary": summary, "value": value}}})
}

fn plant_content() -> Value {
    json!({JSON: media(schema("Plant"), "plant", "A plant", plant())})
}

fn ndjson_content() -> Value {
    let schema =
        json!({"type": "string", "format": "binary", "description": "A NewPlant in each line."});
    let rows = format!("{}\n{}\n", new_plant(), untagged_plant());
    media(schema, "rows", "Two plants", json!(rows))
}

fn csv_content(description: &str, header_pattern: &str) -> Value {
    let schema = json!({
        "type": "string",
        "format": "binary",
        "description": format!("Comma-separated values (RFC 4180) {description}"),
        "pattern": format!(r"^{header_pattern}(\r?\n|$)"),
    });
    let rows = CSV_HEADER.join(",") + "\n7,Rosa canina,Rosaceae\n8,Salix alba,\n";
    media(schema, "rows", "Two plants", json!(rows))
}

fn ok_answer(description: &str) -> Value {
    json!({
        "200": {
            "description": description,
            "headers": headers(&[]),
            "content": {
                "text/plain": media(json!({"type": "string"}), "ok", "The only answer", json!("ok\n")),
            },
        },
    })
}

fn any_of(schemas: [&str; 2]) -> Value {
    json!({"anyOf": schemas.map(schema)})
}

/// The links to the operations on the plant whose id this runtime expression selects.
fn links(id: &str, operations: &[&str]) -> Map<String, Value> {
    let link = |operation: &&str| {
        let link = json!({"operationId": operation, "parameters": {"id": id}});
        ((*operation).to_owned(), link)
    };
    operations.iter().map(link).collect()
}

fn query(name: &str, description: &str, mut schema: Value) -> Value {
    // Some generators read the description of the parameter, some that of the schema.
    schema["description"] = json!(description);
    json!({
        "name": name,
        "in": "query",
        "description": description,
        "required": false,
        "schema": schema,
    })
}

/// A header that a request may have. The example is the schema's and not the parameter's: pages that send requests
/// would fill that in.
fn header(name: &str, description: String, format: &str, pattern: String, example: &str) -> Value {
    json!({
        "name": name,
        "in": "header",
        "description": description,
        "required": false,
        "schema": {"type": "string", "format": format, "examples": [example], "pattern": pattern},
    })
}

fn preconditions() -> Vec<Value> {
    let if_match = entity_tags("If-Match", "Do this only if the ETag is one of these", "13.1.1");
    vec![if_match, if_none_match()]
}

fn if_none_match() -> Value {
    entity_tags("If-None-Match", "Do this only if the ETag is none of these", "13.1.2")
}

fn entity_tags(name: &str, effect: &str, section: &str) -> Value {
    let description = format!(
        "{effect} (RFC 9110, section {section}): `*` for any that exists, or up to {ENTITY_TAGS_MAX} ETags with \
         commas between them, each as it was answered."
    );
    let more = ENTITY_TAGS_MAX - 1;
    let pattern = format!(r#"^(\*|(W/)?"[!#-~]*"([ \t]*,[ \t]*(W/)?"[!#-~]*"){{0,{more}}})$"#);
    // No registry has this format. Tools that generate values for the header can recognize it.
    header(name, description, "entity-tags", pattern, "\"42\"")
}

fn idempotency_key() -> Value {
    let description = format!(
        "Makes the request safe to send again: the same key with the same plant gets the same answer, and nothing is \
         written twice. A string of 1 to {IDEMPOTENCY_KEY_MAX_CHARACTERS} ASCII characters in double quotes (RFC 9651, \
         section 3.3.3)."
    );
    let pattern = format!(r#"^"([ !#-\[\]-~]|\\["\\]){{1,{IDEMPOTENCY_KEY_MAX_CHARACTERS}}}"$"#);
    // A format of the OpenAPI Format Registry.
    let example = "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"";
    header("Idempotency-Key", description, "sf-string", pattern, example)
}
