//! The OpenAPI document, which describes the service for programs and for people.
//!
//! It is built as JSON in the notation of OpenAPI 3.1, from the routes, each of which has a description beside its
//! handler, and from the constants that the checks use. So no route lacks a description, and no limit is written twice.
//!
//! - `operations` describes the requests and the answers of each route.
//! - `operation` adds what every operation has in common, `failures` the answers with errors.
//! - `components` are the schemas and headers that operations refer to by name.

mod components;
mod failures;
pub(crate) mod operation;
pub(crate) mod operations;
pub(crate) mod page;
pub(crate) mod static_file;

use serde_json::{Value, json};

use crate::limits::{HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES};

use self::operation::{Endpoint, Operation};
use self::operations::{API_VERSION, IMPORT_AND_EXPORT, PLANTS, SERVER};

fn description() -> String {
    format!(
        "\
A store of plants. When the answer to a change arrives, the change is on disk.

Every request needs a bearer token, except to the operations under Server (`security: []`). A token has the scope \
`read` or `write`; `write` includes `read`, and is what every method but GET and HEAD needs.

Every failure has a body of the schema Error. Programs branch on its number; its message says what to do. (Only a head \
that cannot be parsed, is too long, or does not arrive in time is answered 400, 414, 431 or 408 without a body. A head \
may have {HEAD_MAX_BYTES} bytes, and each of its lines {HEAD_LINE_MAX_BYTES}, with their line ends.) A path \
that does not exist is answered 404 with 4004, a method that a path does not have 405 with 4005 and `Allow`. HEAD \
works wherever GET does, and OPTIONS names the methods of a path, without a token.

A minor version (1.1, 1.2 and so on) may add members, headers, operations and error numbers: ignore what you do not \
know, and treat an unknown error number by its status."
    )
}

/// The document of these operations: pretty-printed JSON that ends with a newline.
pub(crate) fn document(operations: impl Iterator<Item = (Endpoint, Operation)>) -> String {
    format!("{:#}\n", openapi(operations))
}

fn openapi(operations: impl Iterator<Item = (Endpoint, Operation)>) -> Value {
    let mut paths = json!({});
    for (endpoint, operation) in operations {
        let method = endpoint.method.as_str().to_ascii_lowercase();
        paths[endpoint.path][method] = operation.into_json(&endpoint);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Plant Store",
            "description": description(),
            "contact": {"name": "The operator of this server"},
            "license": {"name": env!("CARGO_PKG_LICENSE")},
            "version": API_VERSION,
        },
        // Relative to the document, because a proxy may put a path before the server's.
        "servers": [{"url": ".", "description": "This server"}],
        "paths": paths,
        "components": {
            "schemas": components::all_schemas(),
            "responses": failures::shared_answers(),
            "parameters": components::all_parameters(),
            "headers": components::all_headers(),
            "securitySchemes": {
                "bearerAuth": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token from the server's operator (RFC 6750, section 2.1).",
                },
            },
        },
        "security": [{"bearerAuth": []}],
        "tags": [
            {"name": PLANTS, "description": "One plant, and the list of them"},
            {"name": IMPORT_AND_EXPORT, "description": "Many plants at once, row by row"},
            {"name": SERVER, "description": "The server itself"},
        ],
    })
}
