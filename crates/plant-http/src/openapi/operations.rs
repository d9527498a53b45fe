//! What each operation takes and answers.

use actix_http::StatusCode;
use plant_domain::{NAME_MAX_CHARACTERS, Plant, PlantPatch};
use plant_store::OnConflict;
use serde_json::{Value, json};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, Required, Type};

use crate::errors::ErrorNumber::{
    self, BodyTooLarge, Busy, IdTaken, NoSuchPlant, NotJson, OldVersion, PreconditionFailed,
    Refused, RuleBroken, StoreFailed, WrongContentType, WrongParameter, WrongShape,
};

use crate::extract::body::not_whole;
use crate::extract::json;
use crate::extract::media_type::{JSON, MERGE_PATCH};
use crate::extract::query::{on_conflict as read_on_conflict, wrong_limit};
use crate::extract::rows::{not_an_array, wrong_header};
use crate::extract::transfer_format::{CSV_HEADER, TransferFormat};
use crate::handlers::import_report::{FailedRow, ImportReport};
use crate::limits::{
    BODY_IDLE_DEADLINE, BODY_MAX_BYTES, PAGE_DEFAULT_PLANTS, PAGE_MAX_PLANTS, ROW_MAX_BYTES,
};

use super::headers::{AnswerHeader, idempotency_key, if_none_match, preconditions};
use super::operation::{Answer, Media, Operation};
use super::schemas::{self, Shape};
use super::tag::OperationTag;

/// The version of the interface (specification, section "Versioning"), which is not the version of this program.
pub(super) const API_VERSION: &str = "1.0.0";

const CREATE: &str = "createPlant";
const READ: &str = "readPlant";
const PUT: &str = "putPlant";
const PATCH: &str = "patchPlant";
const DELETE: &str = "deletePlant";

/// What is wrong with a body that is to be JSON.
const JSON_BODY_FAILURES: [ErrorNumber; 5] =
    [NotJson, WrongContentType, BodyTooLarge, WrongShape, RuleBroken];

/// What may be wrong with a row of an import.
const ROW_FAILURES: [ErrorNumber; 6] =
    [NotJson, BodyTooLarge, WrongShape, RuleBroken, IdTaken, Refused];

/// What no schema can say of a body.
const MEMBERS: &str = "`id`, `name` and `tag` may each appear once; other members are ignored.";

/// What may go wrong where the store is asked.
const STORE_FAILURES: [ErrorNumber; 2] = [StoreFailed, Busy];

/// What may go wrong where the store is asked to write one plant.
const WRITE_FAILURES: [ErrorNumber; 3] = [StoreFailed, Busy, Refused];

pub(crate) fn create_plant() -> Operation {
    Operation::new(CREATE, OperationTag::Plants, "Create a plant")
        .description(format!(
            "Creates the plant, unless its id is taken. When the answer arrives, the plant is on disk. \
             The body may be at most {BODY_MAX_BYTES} bytes. {MEMBERS}"
        ))
        .parameters([idempotency_key()])
        .body(
            Media::json(schemas::any_of(&[Shape::NewPlant, Shape::NewPlantWithNullableTag]))
                .example("tagged", "A plant with a tag", new_plant())
                .example("untagged", "A plant without one", json!({"id": 8, "name": "Salix alba"})),
        )
        .answer(
            Answer::new(StatusCode::OK, "The plant as it was stored.")
                .media(plant_media())
                .headers(&[AnswerHeader::PlantEntityTag, AnswerHeader::Location])
                .links("$request.body#/id", &[READ, PUT, PATCH, DELETE]),
        )
        .failures(&JSON_BODY_FAILURES)
        .failures(&WRITE_FAILURES)
        .failures(&[WrongParameter, IdTaken])
}

pub(crate) fn list_plants() -> Operation {
    let limit = schemas::integer()
        .minimum(Some(1))
        .maximum(Some(PAGE_MAX_PLANTS))
        .default(Some(json!(PAGE_DEFAULT_PLANTS)));
    Operation::new("listPlants", OperationTag::Plants, "List plants")
        .description(
            "The plants by ascending id, page by page. While there may be more, the answer has a `Link` with \
             `rel=\"next\"`: follow it until there is none. The work for one page is bounded, so with a filter a page \
             may be short or even empty before the end.",
        )
        .parameters([
            query("limit", "How many plants the page has at most.", limit),
            query("after", "Return only plants whose id is greater than this.", schemas::plant_id()),
            query("tag", "Return only plants with exactly this tag.", schemas::tag()),
            query(
                "name",
                "Return only plants whose name has this in it, whether in upper or lower case.",
                schemas::bounded_text(NAME_MAX_CHARACTERS).examples([json!("rosa")]),
            ),
        ])
        .answer(
            Answer::new(StatusCode::OK, "One page.")
                .media(Media::json(schemas::page()).example(
                    "page",
                    "A page of two plants",
                    json!([new_plant(), {"id": 8, "name": "Salix alba"}]),
                ))
                .headers(&[AnswerHeader::NextPage, AnswerHeader::TotalCount]),
        )
        .failures(&STORE_FAILURES)
        .failures(&[WrongParameter])
        .failure_example(wrong_limit())
}

pub(crate) fn read_plant() -> Operation {
    Operation::new(READ, OperationTag::Plants, "Read a plant")
        .description(
            "The plant as it is on disk. With `If-None-Match`, 304 when the client has it already.",
        )
        .parameters(preconditions())
        .answer(
            Answer::new(StatusCode::OK, "The plant.")
                .media(Media::json(Shape::NewPlant.reference()).example(
                    "plant",
                    "A plant",
                    new_plant(),
                ))
                .headers(&[AnswerHeader::PlantEntityTag])
                .links("$request.path.id", &[PUT, PATCH, DELETE]),
        )
        .answer(
            Answer::new(StatusCode::NOT_MODIFIED, "The client has the plant as it is.")
                .headers(&[AnswerHeader::PlantEntityTag]),
        )
        .failures(&STORE_FAILURES)
        .failures(&[WrongParameter, NoSuchPlant, PreconditionFailed])
}

pub(crate) fn put_plant() -> Operation {
    Operation::new(PUT, OperationTag::Plants, "Create or replace a plant")
        .description(format!(
            "Makes the plant what the body says, whether it existed or not; safe to send again. \
             `If-None-Match: *` creates a plant or does nothing. A change that changes nothing keeps the ETag. \
             The body may be at most {BODY_MAX_BYTES} bytes, and may have an `id`, which must be that of the path. \
             {MEMBERS}"
        ))
        .parameters(preconditions())
        .body(
            Media::json(schemas::any_of(&[Shape::Plant, Shape::PlantWithNullableTag]))
                .example("plant", "A plant", plant()),
        )
        .answer(
            Answer::new(StatusCode::OK, "The plant existed, and is now as it was sent.")
                .media(plant_media())
                .headers(&[AnswerHeader::PlantEntityTag])
                .links("$request.path.id", &[READ, PATCH, DELETE]),
        )
        .answer(
            Answer::new(StatusCode::CREATED, "The plant is new.")
                .media(plant_media())
                .headers(&[AnswerHeader::PlantEntityTag, AnswerHeader::Location])
                .links("$request.path.id", &[READ, PATCH, DELETE]),
        )
        .failures(&JSON_BODY_FAILURES)
        .failures(&WRITE_FAILURES)
        .failures(&[WrongParameter, PreconditionFailed])
        .failure_example(json::read::<Plant>(b"{}").expect_err("it has no name"))
}

pub(crate) fn patch_plant() -> Operation {
    let media = |media_type| {
        Media::new(media_type, Shape::PlantPatch.reference())
            .example("rename", "Another name", json!({"name": "Rosa rubiginosa"}))
            .example("removeTag", "No tag any more", json!({"tag": null}))
    };
    Operation::new(PATCH, OperationTag::Plants, "Change a plant")
        .description(format!(
            "Changes those members of the plant that the body has: a merge patch (RFC 7396). A change that changes \
             nothing keeps the ETag. The body may be at most {BODY_MAX_BYTES} bytes, and may have an `id`, which must \
             be that of the path. {MEMBERS}"
        ))
        .parameters(preconditions())
        .body(media(MERGE_PATCH))
        .body(media(JSON))
        .answer(
            Answer::new(StatusCode::OK, "The plant as it is now.")
                .media(plant_media())
                .headers(&[AnswerHeader::PlantEntityTag])
                .links("$request.path.id", &[READ, DELETE]),
        )
        .failures(&JSON_BODY_FAILURES)
        .failures(&WRITE_FAILURES)
        .failures(&[WrongParameter, NoSuchPlant, PreconditionFailed])
        .failure_example(json::read::<PlantPatch>(br#"{"tag":7}"#).expect_err("it is no text"))
}

pub(crate) fn delete_plant() -> Operation {
    Operation::new(DELETE, OperationTag::Plants, "Delete a plant")
        .description("The plant is gone from disk when the answer arrives.")
        .parameters(preconditions())
        .answer(
            Answer::new(StatusCode::NO_CONTENT, "The plant is gone.")
                .links("$request.path.id", &[READ]),
        )
        .failures(&WRITE_FAILURES)
        .failures(&[WrongParameter, NoSuchPlant, PreconditionFailed])
}

pub(crate) fn import_plants() -> Operation {
    let ways = [OnConflict::Error, OnConflict::Skip, OnConflict::Replace];
    let on_conflict = schemas::text()
        .enum_values(Some(ways.map(|way| way.to_string())))
        .default(Some(json!(OnConflict::default().to_string())));
    let seconds = BODY_IDLE_DEADLINE.as_secs();
    let header = CSV_HEADER.join(",");
    let row_failures = ROW_FAILURES.map(|number| (number as i32).to_string()).join(", ");
    Operation::new("importPlants", OperationTag::ImportAndExport, "Import plants")
        .description(format!(
            "Takes a plant from each row of a body of any length. Each row stands alone: it is on disk when the \
             report comes, or counted as failed, with one of the errors {row_failures}. A row is a line of NDJSON such \
             as `{{\"id\":7,\"name\":\"Rosa canina\"}}`, one of CSV behind a header such as `{header}`, or an element of \
             a JSON array. It may be at most {ROW_MAX_BYTES} bytes. The body may take any time, without a pause of more than {seconds} s. An import \
             that breaks off keeps what it has taken."
        ))
        .parameters([query(
            "on_conflict",
            "What to do with an id that is taken: let the row fail, skip it, or replace the plant that is there.",
            on_conflict,
        )])
        .body(ndjson_media())
        .body(csv_body_media())
        .body(json_array_media())
        .answer(
            Answer::new(StatusCode::OK, "What became of the rows.").media(
                Media::json(Shape::ImportReport.reference()).example(
                    "report",
                    "One row was taken and one was not",
                    json!(ImportReport {
                        created: 1,
                        failed: 1,
                        errors: vec![FailedRow { line: 2, error: schemas::example_error() }],
                        ..ImportReport::default()
                    }),
                ),
            ),
        )
        .failures(&STORE_FAILURES)
        .failures(&[NotJson, WrongContentType, WrongShape, WrongParameter])
        .failure_example(not_whole())
        .failure_example(wrong_header("\"genus\" is unknown"))
        .failure_example(not_an_array())
        .failure_example(read_on_conflict("on_conflict=ask").expect_err("there is no such way"))
}

pub(crate) fn export_plants() -> Operation {
    Operation::new("exportPlants", OperationTag::ImportAndExport, "Export all plants")
        .description(
            "Every plant, by ascending id, in rows that can be imported again: NDJSON, or CSV where `Accept` would \
             rather have it. A plant that exists all the while comes once, as it was at some moment meanwhile; one \
             that comes or goes meanwhile comes once or not at all. A truncated answer is incomplete; HTTP/1.0, in \
             which that cannot be noticed, is refused.",
        )
        .answer(
            Answer::new(StatusCode::OK, "Every plant.")
                .media(ndjson_media())
                .media(csv_media())
                .headers(&[AnswerHeader::TotalCount]),
        )
        .failures(&STORE_FAILURES)
        .failures(&[WrongParameter, OldVersion])
}

pub(crate) fn check_live() -> Operation {
    Operation::new("checkLive", OperationTag::Server, "Liveness check")
        .description("Answers as long as the process does its work.")
        .answer(Answer::new(StatusCode::OK, "The process is running.").media(ok_media()))
}

pub(crate) fn check_ready() -> Operation {
    Operation::new("checkReady", OperationTag::Server, "Readiness check")
        .description(
            "Fails when the store cannot take writes, and when the server is shutting down.",
        )
        .answer(Answer::new(StatusCode::OK, "The server takes requests.").media(ok_media()))
        .failures(&STORE_FAILURES)
}

pub(crate) fn read_openapi() -> Operation {
    let schema = ObjectBuilder::new().schema_type(Type::Object).title(Some("Document"));
    Operation::new("readOpenapi", OperationTag::Server, "Read this document")
        .description(format!(
            "The OpenAPI document of what this server serves. Its version, {API_VERSION}, is that of the interface."
        ))
        .parameters([if_none_match()])
        .answer(
            Answer::new(StatusCode::OK, "The file.")
                .media(Media::json(schema))
                .headers(&[AnswerHeader::FileEntityTag]),
        )
        .answer(
            Answer::new(StatusCode::NOT_MODIFIED, "The client has the file.")
                .headers(&[AnswerHeader::FileEntityTag]),
        )
}

fn plant() -> Value {
    json!({"name": "Rosa canina", "tag": "Rosaceae"})
}

fn new_plant() -> Value {
    json!({"id": 7, "name": "Rosa canina", "tag": "Rosaceae"})
}

fn plant_media() -> Media {
    Media::json(Shape::Plant.reference()).example("plant", "A plant", plant())
}

fn ndjson_media() -> Media {
    let schema = schemas::file("A NewPlant in each line.");
    Media::new(TransferFormat::NdJson.media_type(), schema).example(
        "rows",
        "Two plants",
        json!("{\"id\":7,\"name\":\"Rosa canina\",\"tag\":\"Rosaceae\"}\n{\"id\":8,\"name\":\"Salix alba\"}\n"),
    )
}

fn json_array_media() -> Media {
    let plants = schemas::array_of_any(&[Shape::NewPlant, Shape::NewPlantWithNullableTag]);
    Media::json(plants).example(
        "rows",
        "Two plants",
        json!([new_plant(), {"id": 8, "name": "Salix alba"}]),
    )
}

/// CSV as an export has it.
fn csv_media() -> Media {
    let header = CSV_HEADER.join(",");
    csv_media_with(&format!("with the header `{header}`. An empty tag cell is no tag."), &header)
}

/// CSV as an import takes it.
fn csv_body_media() -> Media {
    let [id, name, tag] = CSV_HEADER;
    csv_media_with(
        &format!(
            "with a header that names the columns `{id}`, `{name}` and `{tag}` in any order. An empty {tag} cell is no \
             tag, and the column may be left out."
        ),
        &format!(
            "({id},{name}(,{tag})?|{name},{id}(,{tag})?|{id},{tag},{name}|{name},{tag},{id}|{tag},{id},{name}|\
             {tag},{name},{id})"
        ),
    )
}

fn csv_media_with(description: &str, header_pattern: &str) -> Media {
    let schema = schemas::file(format!("Comma-separated values (RFC 4180) {description}"))
        .pattern(Some(format!(r"^{header_pattern}(\r?\n|$)")));
    let header = CSV_HEADER.join(",");
    Media::new(TransferFormat::Csv.media_type(), schema).example(
        "rows",
        "Two plants",
        json!(format!("{header}\n7,Rosa canina,Rosaceae\n8,Salix alba,\n")),
    )
}

fn ok_media() -> Media {
    Media::new("text/plain", schemas::text()).example("ok", "The only answer", json!("ok\n"))
}

fn query(name: &str, description: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        // Some generators read the one description, some the other.
        .schema(Some(schema.description(Some(description)).build()))
        .build()
}
