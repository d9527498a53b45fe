//! The OpenAPI document: what is served, for programs and for people.
//!
//! It is made from the routes, each of which has a description beside its handler, and from the constants
//! that the checks use. So there is no route without a description, and no limit that stands twice.
//!
//! - `operations` says of each route what it takes and what it answers.
//! - `operation` adds what every operation has in common.
//! - `schemas` are the shapes of bodies, `headers` those of headers, `failures` the numbers of errors.

pub(crate) mod api_page;
mod failures;
mod headers;
mod operation;
pub(crate) mod operations;
mod schemas;
mod static_file;

use std::sync::LazyLock;

use actix_web::{HttpRequest, HttpResponse};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::tag::{Tag, TagBuilder};
use utoipa::openapi::{
    ComponentsBuilder, ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder,
    PathsBuilder, SecurityRequirement, ServerBuilder,
};

pub(crate) use operation::Operation;

use crate::errors::Failure;
use crate::extract::body::JSON;
use crate::openapi::static_file::StaticFile;
use crate::routes::described_routes;
use crate::server::http1::request_end::{HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES};

/// The version of the interface (specification, section "Versioning"), which is not the version of this
/// program.
pub const API_VERSION: &str = "1.0.0";

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

static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let mut text = document().to_pretty_json().expect("a document of text and numbers is JSON");
    text.push('\n');
    text
});

/// The OpenAPI 3.1 document of all that is served: pretty-printed JSON that ends with a newline.
///
/// ```
/// assert!(plant_http::openapi_document().starts_with("{\n  \"openapi\": \"3.1."));
/// ```
#[must_use]
pub fn openapi_document() -> &'static str {
    &DOCUMENT
}

/// `GET /openapi.json`.
pub(crate) async fn serve(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: LazyLock<StaticFile> = LazyLock::new(|| StaticFile::new(JSON, openapi_document()));
    FILE.answer(&request)
}

fn document() -> OpenApi {
    let mut paths = PathsBuilder::new().build();
    for (route, describe) in described_routes() {
        let Some(describe) = describe else { continue };
        let operation = describe().into_openapi(&route);
        paths.add_path_operation(route.path, vec![operation::method(&route)], operation);
    }
    let bearer = Http::builder().scheme(HttpAuthScheme::Bearer).description(Some(
        "A token of `plantd token create`, or the one in the file `first-run-token` (RFC 6750, section \
         2.1).",
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

/// What an operation has to do with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationTag {
    Plants,
    ImportAndExport,
    Server,
}

impl OperationTag {
    const ALL: [Self; 3] = [Self::Plants, Self::ImportAndExport, Self::Server];

    const fn name(self) -> &'static str {
        match self {
            Self::ImportAndExport => "Import and export",
            Self::Plants => "Plants",
            Self::Server => "Server",
        }
    }

    fn describe(self) -> Tag {
        let description = match self {
            Self::ImportAndExport => "Many plants at once, row by row",
            Self::Plants => "One plant, and the list of them",
            Self::Server => "The server itself",
        };
        TagBuilder::new().name(self.name()).description(Some(description)).build()
    }
}
