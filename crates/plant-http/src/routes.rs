//! All routes on one screen.

use std::future::ready;

use actix_http::Method;
use actix_http::header::{self, HeaderValue};
use actix_web::guard::{self, GuardContext};
use actix_web::web::ServiceConfig;
use actix_web::{FromRequest, Handler, HttpResponse, Resource, Responder, Route, web};

use crate::access::gate::scope_needed;
use crate::access::token_record::Scope;
use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::MERGE_PATCH;
use crate::handlers::{export, health, import, plants};
use crate::openapi::{self, api_page};
use crate::openapi::{Operation, operations};

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
        Path::open("/openapi.json").get(openapi::serve, operations::read_openapi),
        Path::open("/").page(redirect("docs")),
        Path::open("/docs").page(api_page::page),
        Path::open("/docs/").page(redirect("../docs")),
        Path::open("/docs/page.js").page(api_page::script),
        Path::open("/docs/page.css").page(api_page::style),
        Path::open("/docs/swagger-ui-bundle.js").page(api_page::swagger_ui),
        Path::open("/docs/swagger-ui-bundle.js.LICENSE.txt").page(api_page::swagger_ui_licenses),
        Path::open("/docs/swagger-ui.css").page(api_page::swagger_ui_style),
    ]
}

/// Registers every route. A path or method that is not there answers with its number.
pub(crate) fn configure(config: &mut ServiceConfig) {
    for path in paths() {
        config.service(path.into_resource());
    }
    config.default_service(web::route().to(async || Err::<HttpResponse, _>(no_such_path())));
}

/// The paths whose GET and HEAD need no token: they are no operations of the store.
pub(crate) fn open_paths() -> Vec<&'static str> {
    paths().iter().filter(|path| path.is_open).map(|path| path.pattern).collect()
}

/// One method of a path that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Its path, with the names of parameters in braces.
    pub path: &'static str,
    /// Its method.
    pub method: String,
    /// What a token must let its holder do; `None` where no token is needed.
    pub scope: Option<Scope>,
    /// Whether it is an operation of the OpenAPI document, and not a page for people.
    pub is_operation: bool,
}

/// Everything that is served. HEAD is served wherever GET is, and OPTIONS on every path.
#[must_use]
pub fn routes() -> Vec<RouteInfo> {
    described_routes().into_iter().map(|(route, _)| route).collect()
}

/// The same, each operation with what describes it.
pub(crate) fn described_routes() -> Vec<(RouteInfo, Option<Describe>)> {
    let routes_of = |path: Path| {
        path.methods.into_iter().map(move |(method, describe)| {
            let scope = (!path.is_open).then(|| scope_needed(&method));
            let method = method.to_string();
            let is_operation = describe.is_some();
            (RouteInfo { path: path.pattern, method, scope, is_operation }, describe)
        })
    };
    paths().into_iter().flat_map(routes_of).collect()
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
type Describe = fn() -> Operation;

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
                async move { Err::<HttpResponse, _>(no_such_method(&allow)) }
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

fn no_such_path() -> Failure {
    Failure::new(ErrorNumber::NoSuchPath, "there is no such path; plants are at /plants")
}

fn no_such_method(allow: &str) -> Failure {
    let message = format!("there is no such method on this path; it takes {allow}");
    let failure = Failure::new(ErrorNumber::NoSuchMethod, message);
    match HeaderValue::from_str(allow) {
        Ok(allow) => failure.with_header(header::ALLOW, allow),
        Err(_) => failure,
    }
}
