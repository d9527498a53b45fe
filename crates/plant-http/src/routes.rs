//! All routes on one screen.

use std::future::ready;
use std::rc::Rc;
use std::sync::LazyLock;

use actix_http::Method;
use actix_http::header::{self, HeaderValue};
use actix_web::guard::{self, GuardContext};
use actix_web::web::{ReqData, ServiceConfig};
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Resource, Responder, Route, web};

use crate::access::gate::scope_needed;
use crate::errors::{self, ErrorNumber, Failure};
use crate::extract::media_type::{JSON, MERGE_PATCH};
use crate::handlers::{export, health, import, plants};
use crate::middleware::context::RequestContext;
use crate::openapi::operation::{Endpoint, Operation};
use crate::openapi::static_file::StaticFile;
use crate::openapi::{self, operations, page};

/// Each path with its methods, their handlers and their descriptions in the OpenAPI document.
fn paths() -> Vec<Path> {
    let mut paths = vec![
        Path::new("/plants")
            // HEAD comes with each GET.
            .on(Method::GET, plants::list, Some(operations::list_plants))
            .on(Method::POST, plants::create, Some(operations::create_plant)),
        Path::new("/plants/import").on(
            Method::POST,
            import::import,
            Some(operations::import_plants),
        ),
        Path::new("/plants/export").on(
            Method::GET,
            export::export,
            Some(operations::export_plants),
        ),
        Path::new("/plants/{id}")
            .on(Method::GET, plants::read, Some(operations::read_plant))
            .on(Method::PUT, plants::put, Some(operations::put_plant))
            .on(Method::PATCH, plants::patch, Some(operations::patch_plant))
            .on(Method::DELETE, plants::delete, Some(operations::delete_plant)),
        Path::open("/livez").on(Method::GET, health::live, Some(operations::check_live)),
        Path::open("/readyz").on(Method::GET, health::ready, Some(operations::check_ready)),
        Path::open("/openapi.json").on(Method::GET, document, Some(operations::read_openapi)),
        Path::open("/").on(Method::GET, redirect("docs"), None),
        Path::open("/docs/").on(Method::GET, redirect("../docs"), None),
    ];
    paths.extend(page::FILES.iter().map(|(path, file)| {
        let answer = move |request: HttpRequest| ready(file.answer(&request));
        Path::open(path).on(Method::GET, answer, None)
    }));
    paths
}

/// Registers every route, and the answers to unknown paths and methods.
pub(crate) fn configure(config: &mut ServiceConfig) {
    for path in paths() {
        config.service(path.into_resource());
    }
    config.default_service(web::route().to(no_such_path));
}

async fn no_such_path(context: ReqData<Rc<RequestContext>>) -> Result<HttpResponse, Failure> {
    Err(Failure::new(ErrorNumber::NoSuchPath, errors::no_such_path(&context.plants_path())))
}

/// The paths whose GET and HEAD need no token.
pub(crate) fn open_paths() -> Vec<&'static str> {
    paths().iter().filter(|path| path.is_open).map(|path| path.pattern).collect()
}

/// Every method of every path, with the description of an operation. HEAD is served wherever GET is, and OPTIONS on
/// every path.
pub(crate) fn endpoints() -> Vec<(Endpoint, Option<Describe>)> {
    let endpoints_of = |path: Path| {
        path.methods.into_iter().map(move |(method, describe)| {
            let scope = (!path.is_open).then(|| scope_needed(&method));
            (Endpoint { path: path.pattern, method, scope }, describe)
        })
    };
    paths().into_iter().flat_map(endpoints_of).collect()
}

/// The OpenAPI 3.1 document of the service: pretty-printed JSON that ends with a newline.
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
    static FILE: LazyLock<StaticFile> =
        LazyLock::new(|| StaticFile::new(JSON, openapi_document(), None));
    FILE.answer(&request)
}

/// One path and its methods.
struct Path {
    pattern: &'static str,
    is_open: bool,
    /// The methods, and their descriptions. HEAD comes with GET.
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

    /// Answers a method. Pages for people have no description in the OpenAPI document.
    fn on<F, Arguments>(mut self, method: Method, handler: F, describe: Option<Describe>) -> Self
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
                ready(response.finish())
            }))
            .default_service(
                web::route()
                    .to(move || ready(Err::<HttpResponse, _>(Failure::no_such_method(&allow)))),
            )
    }
}

/// HEAD works wherever GET does. actix-http leaves the body out.
fn with_head(method: &Method) -> Vec<Method> {
    if *method == Method::GET { vec![Method::GET, Method::HEAD] } else { vec![method.clone()] }
}

fn route_for(methods: Vec<Method>) -> Route {
    let matches = move |context: &GuardContext<'_>| methods.contains(&context.head().method);
    web::route().guard(guard::fn_guard(matches))
}

/// Redirects browsers. The address is relative, because a proxy may put a prefix before the path.
fn redirect(location: &'static str) -> impl Handler<(), Output = HttpResponse> {
    move || {
        let location = (header::LOCATION, HeaderValue::from_static(location));
        ready(HttpResponse::TemporaryRedirect().insert_header(location).finish())
    }
}
