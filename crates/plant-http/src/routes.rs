//! All routes on one screen.

use std::future::ready;
use std::sync::LazyLock;

use actix_http::Method;
use actix_http::header::{self, HeaderValue};
use actix_web::guard::{self, GuardContext};
use actix_web::web::ServiceConfig;
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Resource, Responder, Route, web};

use crate::access::gate::scope_needed;
use crate::errors::{self, ErrorNumber, Failure};
use crate::extract::caller::Mount;
use crate::extract::media_type::{JSON, MERGE_PATCH};
use crate::handlers::{export, health, import, plants};
use crate::openapi::operation::{Endpoint, Operation};
use crate::openapi::static_file::StaticFile;
use crate::openapi::{self, operations, page};

/// Each path with its methods: for each, what answers, and what the OpenAPI document says of it. The pages for
/// people are not in the document.
fn paths() -> Vec<Path> {
    vec![
        Path::new("/plants")
            .get(plants::list, operations::list_plants)
            .post(plants::create, operations::create_plant),
        Path::new("/plants/import").post(import::import, operations::import_plants),
        Path::new("/plants/export").get(export::export, operations::export_plants),
        Path::new("/plants/{id}")
            .get(plants::read, operations::read_plant)
            .put(plants::put, operations::put_plant)
            .patch(plants::patch, operations::patch_plant)
            .delete(plants::delete, operations::delete_plant),
        Path::open("/livez").get(health::live, operations::check_live),
        Path::open("/readyz").get(health::ready, operations::check_ready),
        Path::open("/openapi.json").get(document, operations::read_openapi),
        Path::open("/").page(redirect("docs")),
        Path::open("/docs").page(page::html),
        Path::open("/docs/").page(redirect("../docs")),
        Path::open("/docs/page.js").page(page::script),
        Path::open("/docs/page.css").page(page::style),
        Path::open("/docs/swagger-ui-bundle.js").page(page::swagger_ui),
        Path::open("/docs/swagger-ui-bundle.js.LICENSE.txt").page(page::swagger_ui_licenses),
        Path::open("/docs/swagger-ui.css").page(page::swagger_ui_style),
    ]
}

/// Registers every route. A path or method that is not there answers with its number.
pub(crate) fn configure(config: &mut ServiceConfig) {
    for path in paths() {
        config.service(path.into_resource());
    }
    config.default_service(web::route().to(no_such_path));
}

async fn no_such_path(mount: Mount) -> Result<HttpResponse, Failure> {
    Err(Failure::new(ErrorNumber::NoSuchPath, errors::no_such_path(&mount.plants())))
}

/// The paths whose GET and HEAD need no token: they are no operations of the store.
pub(crate) fn open_paths() -> Vec<&'static str> {
    paths().iter().filter(|path| path.is_open).map(|path| path.pattern).collect()
}

/// Everything that is served, and what describes it where it is an operation. HEAD is served wherever GET is, and OPTIONS
/// on every path.
pub(crate) fn endpoints() -> Vec<(Endpoint, Option<Describe>)> {
    let endpoints_of = |path: Path| {
        path.methods.into_iter().map(move |(method, describe)| {
            let scope = (!path.is_open).then(|| scope_needed(&method));
            (Endpoint { path: path.pattern, method, scope }, describe)
        })
    };
    paths().into_iter().flat_map(endpoints_of).collect()
}

/// The OpenAPI 3.1 document of all that is served: pretty-printed JSON that ends with a newline.
///
/// ```
/// assert!(plant_http::openapi_document().starts_with("{\n  \"openapi\": \"3.1."));
/// ```
#[must_use]
pub fn openapi_document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        let endpoints = endpoints().into_iter();
        openapi::document(
            endpoints.filter_map(|(endpoint, describe)| Some((endpoint, describe?()))),
        )
    });
    &DOCUMENT
}

/// `GET /openapi.json`.
async fn document(request: HttpRequest) -> Result<HttpResponse, Failure> {
    static FILE: LazyLock<StaticFile> = LazyLock::new(|| StaticFile::new(JSON, openapi_document()));
    FILE.answer(&request)
}

/// One path and its methods.
struct Path {
    pattern: &'static str,
    is_open: bool,
    /// What each is described by. HEAD comes with GET.
    methods: Vec<(Method, Option<Describe>)>,
    resource: Resource,
}

/// Describes an operation.
pub(crate) type Describe = fn() -> Operation;

impl Path {
    fn new(pattern: &'static str) -> Self {
        Self { pattern, is_open: false, methods: Vec::new(), resource: web::resource(pattern) }
    }

    fn open(pattern: &'static str) -> Self {
        Self { is_open: true, ..Self::new(pattern) }
    }

    /// A GET that is no operation of the OpenAPI document: pages and their files are for people.
    fn page<F, Arguments>(self, handler: F) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::GET, handler, None)
    }

    fn get<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::GET, handler, Some(describe))
    }

    fn post<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::POST, handler, Some(describe))
    }

    fn put<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::PUT, handler, Some(describe))
    }

    fn patch<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::PATCH, handler, Some(describe))
    }

    fn delete<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::DELETE, handler, Some(describe))
    }

    fn route<F, Arguments>(mut self, method: Method, handler: F, describe: Option<Describe>) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.resource = self.resource.route(route_for(with_head(&method)).to(handler));
        self.methods.push((method, describe));
        self
    }

    fn into_resource(self) -> Resource {
        let takes_patches = self.methods.iter().any(|(method, _)| *method == Method::PATCH);
        let methods = self.methods.iter().flat_map(|(method, _)| with_head(method));
        let methods: Vec<Method> = methods.chain([Method::OPTIONS]).collect();
        let allow = methods.iter().map(Method::as_str).collect::<Vec<&str>>().join(", ");
        let options = allow.clone();
        self.resource
            .route(route_for(vec![Method::OPTIONS]).to(move || {
                let mut response = HttpResponse::NoContent();
                response.insert_header((header::ALLOW, options.clone()));
                if takes_patches {
                    // RFC 5789, section 3.1.
                    response.insert_header(("accept-patch", MERGE_PATCH));
                }
                async move { response.finish() }
            }))
            .default_service(web::route().to(move || {
                let allow = allow.clone();
                async move { Err::<HttpResponse, _>(Failure::no_such_method(&allow)) }
            }))
    }
}

/// HEAD works wherever GET does. Its body is left out when the answer is sent.
fn with_head(method: &Method) -> Vec<Method> {
    if *method == Method::GET { vec![Method::GET, Method::HEAD] } else { vec![method.clone()] }
}

fn route_for(methods: Vec<Method>) -> Route {
    let matches = move |context: &GuardContext<'_>| methods.contains(&context.head().method);
    web::route().guard(guard::fn_guard(matches))
}

/// Sends browsers on. The address is relative, because a proxy may put a path before ours.
fn redirect(location: &'static str) -> impl Handler<(), Output = HttpResponse> {
    move || {
        let location = (header::LOCATION, HeaderValue::from_static(location));
        ready(HttpResponse::TemporaryRedirect().insert_header(location).finish())
    }
}
