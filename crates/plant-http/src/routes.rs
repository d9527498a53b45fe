//! All routes on one screen.

use actix_http::Method;
use actix_http::header::{self, HeaderValue};
use actix_web::guard::{self, GuardContext};
use actix_web::web::ServiceConfig;
use actix_web::{FromRequest, Handler, HttpResponse, Resource, Responder, Route, web};

use crate::body::MERGE_PATCH;
use crate::failure::{ErrorNumber, Failure};
use crate::gate::scope_needed;
use crate::openapi::{Operation, operations};
use crate::tokens_file::Scope;
use crate::{api_page, export, health, import, openapi, plants};

/// Each path with its methods: for each, what answers, and what the OpenAPI document says of it.
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
        Path::open("/docs").get(api_page::page, operations::read_api_page),
        Path::open("/docs/page.js").get(api_page::script, operations::read_api_page_script),
        Path::open("/docs/swagger-ui-bundle.js")
            .get(api_page::swagger_ui, operations::read_swagger_ui),
        Path::open("/docs/swagger-ui-bundle.js.LICENSE.txt")
            .get(api_page::swagger_ui_licenses, operations::read_swagger_ui_licenses),
        Path::open("/docs/swagger-ui.css")
            .get(api_page::swagger_ui_style, operations::read_swagger_ui_style),
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

/// One operation that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Its path, with the names of parameters in braces.
    pub path: &'static str,
    /// Its method.
    pub method: String,
    /// What a token must let its holder do; `None` where no token is needed.
    pub scope: Option<Scope>,
}

/// All operations that are served. HEAD is served wherever GET is, and OPTIONS on every path.
#[must_use]
pub fn routes() -> Vec<RouteInfo> {
    described_routes().into_iter().map(|(route, _)| route).collect()
}

/// The same, each with what describes it.
pub(crate) fn described_routes() -> Vec<(RouteInfo, Describe)> {
    let routes_of = |path: Path| {
        path.operations.into_iter().map(move |(method, describe)| {
            let scope = (!path.is_open).then(|| scope_needed(&method));
            (RouteInfo { path: path.pattern, method: method.to_string(), scope }, describe)
        })
    };
    paths().into_iter().flat_map(routes_of).collect()
}

/// One path and its methods.
struct Path {
    pattern: &'static str,
    is_open: bool,
    methods: Vec<Method>,
    operations: Vec<(Method, Describe)>,
    resource: Resource,
}

/// Describes an operation.
type Describe = fn() -> Operation;

impl Path {
    fn new(pattern: &'static str) -> Self {
        Self {
            pattern,
            is_open: false,
            methods: Vec::new(),
            operations: Vec::new(),
            resource: web::resource(pattern),
        }
    }

    fn open(pattern: &'static str) -> Self {
        Self { is_open: true, ..Self::new(pattern) }
    }

    /// HEAD works wherever GET does; the body is left out below.
    fn get<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(&[Method::GET, Method::HEAD], handler, describe)
    }

    fn post<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(&[Method::POST], handler, describe)
    }

    fn put<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(&[Method::PUT], handler, describe)
    }

    fn patch<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(&[Method::PATCH], handler, describe)
    }

    fn delete<F, Arguments>(self, handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(&[Method::DELETE], handler, describe)
    }

    fn route<F, Arguments>(mut self, methods: &[Method], handler: F, describe: Describe) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.methods.extend_from_slice(methods);
        self.operations.push((methods[0].clone(), describe));
        self.resource = self.resource.route(route_for(methods.to_vec()).to(handler));
        self
    }

    fn into_resource(self) -> Resource {
        let allow = self.methods.iter().map(Method::as_str).chain(["OPTIONS"]);
        let allow = allow.collect::<Vec<&str>>().join(", ");
        let options = allow.clone();
        let takes_patches = self.methods.contains(&Method::PATCH);
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

fn route_for(methods: Vec<Method>) -> Route {
    let matches = move |context: &GuardContext<'_>| methods.contains(&context.head().method);
    web::route().guard(guard::fn_guard(matches))
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
