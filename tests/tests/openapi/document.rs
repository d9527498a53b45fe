//! The document describes exactly the served operations, and those that the specification requires.

use std::collections::BTreeSet;
use std::process::Command;

use plant_http::internal::{RouteInfo, routes};
use plantd_tests::{OpenapiDocument, TestServer, Toolbox, program, repository, run_tool};
use serde_json::{Value, json};

fn printed() -> String {
    let output = Command::new(program()).arg("openapi").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_copy_in_the_repository_is_what_the_program_prints() {
    let copy = include_str!("../../../docs/openapi.json");
    // An assertion of equality would print both documents.
    let is_same = copy == printed();
    assert!(is_same, "docs/openapi.json is stale: run `cargo run -- openapi > docs/openapi.json`");
}

#[test]
fn spectral_finds_nothing_in_the_document() {
    let mut lint = Toolbox::node().command("spectral");
    lint.args(["lint", "--fail-severity", "hint"]);
    lint.arg("--ruleset").arg(repository("tests/tools/node/spectral.yaml"));
    run_tool(lint.arg(repository("docs/openapi.json")));
}

#[test]
fn the_server_gives_the_document_without_a_token_and_304_to_its_entity_tag() {
    let server = TestServer::start();
    let client = server.client().without_token();
    let answer = client.get("/openapi.json");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(String::from_utf8_lossy(&answer.body), printed());

    let entity_tag = answer.header("etag").expect("it has one");
    let again = client.send("GET", "/openapi.json", &[("if-none-match", entity_tag)], "");
    assert_eq!((again.status, again.body.len()), (304, 0));
}

#[test]
fn what_is_served_is_in_the_document_and_what_is_in_it_is_served() {
    let document = OpenapiDocument::read(&printed());
    let described: BTreeSet<(String, String, bool)> = document
        .operations()
        .map(|(method, path, operation)| {
            let is_open = operation.get("security") == Some(&json!([]));
            (method, path.to_owned(), is_open)
        })
        .collect();
    let served: BTreeSet<(String, String, bool)> = routes()
        .into_iter()
        .filter(|route| route.is_operation)
        .map(|route| (route.method, route.path.to_owned(), !route.needs_token))
        .collect();
    assert_eq!(described, served);
    let pages: Vec<RouteInfo> = routes().into_iter().filter(|route| !route.is_operation).collect();
    assert_eq!(routes().len(), served.len() + pages.len(), "an operation is served twice");
    // Pages for people are GETs, and not in the document.
    assert!(pages.iter().all(|page| page.method == "GET" && !page.needs_token), "{pages:?}");

    let server = TestServer::start();
    let client = server.client();
    for (method, path, _) in described {
        let answer = client.send(&method, &path.replace("{id}", "7"), &[], "");
        // There is no such plant, or no backup of PostgreSQL.
        let is_routed = ![404, 405].contains(&answer.status)
            || [3002, 4006].iter().any(|number| answer.json()["error"] == *number);
        assert!(is_routed, "{method} {path}: {answer:?}");
    }
}

#[test]
fn each_error_is_documented_with_its_number_and_an_example() {
    let document = OpenapiDocument::copy();
    for (method, path, operation) in document.operations() {
        let failures: Vec<(u16, &Value)> = document.failures(operation).collect();
        assert!(!failures.is_empty(), "{method} {path} cannot fail");
        for (status, response) in failures {
            let description = response["description"].as_str().expect("it has one");
            let content = &response["content"]["application/json"];
            assert_eq!(content["schema"], json!({"$ref": "#/components/schemas/Error"}));
            let errors: Vec<(i64, &Value)> = OpenapiDocument::errors(response).collect();
            assert!(!errors.is_empty(), "{method} {path} {status} has no numbers");
            for (number, example) in errors {
                assert!(description.contains(&format!("`{number}`")), "{description}");
                assert_eq!(example["value"]["error"], json!(number), "{method} {path}");
                let message = example["value"]["message"].as_str().unwrap_or_default();
                assert!(!message.is_empty(), "{method} {path}: {number}");
            }
        }
    }
}

#[test]
fn the_examples_of_errors_of_a_body_are_what_the_server_answers() {
    let server = TestServer::start();
    let document = OpenapiDocument::copy();
    let create = document.at("/paths/~1plants/post");
    let (_, refusals) = document.failures(create).find(|(status, _)| *status == 400).expect("some");
    for (body, number) in [
        ("{\"id\":7,", 1001),
        ("{\"name\":\"Rosa canina\"}", 1004),
        ("{\"id\":7,\"name\":\"\"}", 1005),
    ] {
        let mut examples = OpenapiDocument::errors(refusals);
        let (_, example) = examples.find(|(told, _)| *told == number).expect("it is documented");
        assert_eq!(server.client().create_from(body).json(), example["value"]);
    }
}

/// Asserts the fields of a schema, each with its type, its format and whether it is required (section "Resources and
/// their fields" of the specification).
fn assert_schema(
    document: &OpenapiDocument,
    name: &str,
    fields: &[(&str, &str, Option<&str>, bool)],
) {
    let schema = document.at(&format!("/components/schemas/{name}"));
    assert_eq!(schema["type"], "object", "{name}");
    let properties = schema["properties"].as_object().expect("it has members");
    let described: BTreeSet<(&str, &str, Option<&str>, bool)> = properties
        .iter()
        .map(|(member, described)| {
            let required = schema["required"].as_array().expect("some are required");
            let is_required = required.iter().any(|name| name.as_str() == Some(member));
            let kind = described["type"].as_str().expect("one type");
            (member.as_str(), kind, described["format"].as_str(), is_required)
        })
        .collect();
    assert_eq!(described, fields.iter().copied().collect(), "{name}");
    // The schemas are open: unknown members are ignored.
    assert_eq!(schema.get("additionalProperties"), None, "{name}");
}

#[test]
fn the_specifications_operation_is_exactly_the_specifications() {
    let document = OpenapiDocument::copy();
    assert_eq!(document.at("/info/title"), "Plant Store");
    assert_eq!(document.at("/info/version"), "1.0.0");
    assert_eq!(document.at("/openapi"), "3.1.0");
    let name = ("name", "string", None, true);
    let tag = ("tag", "string", None, false);
    assert_schema(document, "Plant", &[name, tag]);
    assert_schema(document, "NewPlant", &[("id", "integer", Some("int64"), true), name, tag]);
    let error = [("error", "integer", Some("int32"), true), ("message", "string", None, true)];
    assert_schema(document, "Error", &error);
    let count = |name| (name, "integer", Some("int64"), true);
    let counts = ["created", "replaced", "skipped", "failed"].map(count);
    let report = [&counts[..], &[("errors", "array", None, true)]].concat();
    assert_schema(document, "ImportReport", &report);
    assert_schema(document, "TagCount", &[("tag", "string", None, true), count("plants")]);
    assert_schema(document, "FailedRow", &[&[count("line")], &error[..]].concat());

    let create = document.at("/paths/~1plants/post");
    let body = &create["requestBody"];
    assert_eq!(body["required"], true);
    let media_types: Vec<&String> = body["content"].as_object().expect("some").keys().collect();
    assert_eq!(media_types, ["application/json"]);
    let forms = &body["content"]["application/json"]["schema"]["anyOf"];
    // The other form is a NewPlant whose tag may be `null`.
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    assert_eq!(*forms, json!([reference("NewPlant"), reference("NewPlantWithNullableTag")]));

    let success = document.at("/paths/~1plants/post/responses/200");
    assert_eq!(success["content"]["application/json"]["schema"], reference("Plant"));
    let successes = create["responses"].as_object().expect("some").keys();
    assert_eq!(successes.filter(|status| status.starts_with('2')).count(), 1);
    let failure = document.at("/paths/~1plants/post/responses/400");
    assert_eq!(failure["content"]["application/json"]["schema"], reference("Error"));

    assert_eq!(document.at("/security"), &json!([{"bearerAuth": []}]));
    let schemes = document.at("/components/securitySchemes").as_object().expect("an object");
    assert_eq!(schemes.keys().collect::<Vec<_>>(), ["bearerAuth"], "there is one scheme");
    assert_eq!(
        (&schemes["bearerAuth"]["type"], &schemes["bearerAuth"]["scheme"]),
        (&json!("http"), &json!("bearer"))
    );
    assert_eq!(create.get("security"), None, "it has that of the whole document");

    // No parameter is required.
    for parameter in create["parameters"].as_array().expect("an array") {
        let parameter = document.follow(parameter);
        assert_eq!((&parameter["in"], &parameter["required"]), (&json!("header"), &json!(false)));
    }
}
