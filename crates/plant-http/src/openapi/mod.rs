//! The OpenAPI document: what is served, for programs and for people.
//!
//! It is made from the routes, each of which has a description beside its handler, and from the constants
//! that the checks use. So there is no route without a description, and no limit that stands twice.
//!
//! - `operations` says of each route what it takes and what it answers.
//! - `operation` adds what every operation has in common.
//! - `schemas` are the shapes of bodies, `headers` those of headers, `failures` the numbers of errors.

mod failures;
mod headers;
pub(crate) mod operation;

pub(crate) mod operations;
pub(crate) mod page;
mod schemas;
pub(crate) mod static_file;
mod tag;

use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder,
    PathsBuilder, SecurityRequirement, ServerBuilder,
};

use crate::limits::{HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES};

use self::operation::{Endpoint, Operation};
use self::operations::API_VERSION;
use self::tag::OperationTag;

/// What the bearer scheme is called in the document.
const BEARER: &str = "bearerAuth";

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
    let mut text =
        openapi(operations).to_pretty_json().expect("a document of text and numbers is JSON");
    text.push('\n');
    text
}

fn openapi(operations: impl Iterator<Item = (Endpoint, Operation)>) -> OpenApi {
    let mut paths = PathsBuilder::new().build();
    for (endpoint, operation) in operations {
        let method = operation::method(&endpoint);
        paths.add_path_operation(endpoint.path, vec![method], operation.into_openapi(&endpoint));
    }
    let bearer = Http::builder().scheme(HttpAuthScheme::Bearer).description(Some(
        "A token that the server's operator has handed out (RFC 6750, section 2.1).",
    ));
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas::all())
        .responses_from_iter(failures::shared_answers())
        .security_scheme(BEARER, SecurityScheme::Http(bearer.build()));
    let components = headers::all()
        .into_iter()
        .fold(components, |components, (name, header)| components.header(name, header));
    let components = headers::request_id_parameter(components);
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Plant Store")
                .version(API_VERSION)
                .description(Some(description()))
                .contact(Some(
                    ContactBuilder::new().name(Some("The operator of this server")).build(),
                ))
                .license(Some(LicenseBuilder::new().name(env!("CARGO_PKG_LICENSE")).build())),
        )
        // Relative to where the document is, whatever stands before the server.
        .servers(Some([ServerBuilder::new().url(".").description(Some("This server")).build()]))
        .tags(Some(OperationTag::ALL.map(OperationTag::describe)))
        .security(Some([SecurityRequirement::new::<_, _, String>(BEARER, [])]))
        .paths(paths)
        .components(Some(components.build()))
        .build()
}
