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
use crate::handlers::{events, export, health, import, plants, tags, token};
use crate::middleware::context::RequestContext;
use crate::openapi::{self, Endpoint};
use crate::pages;
use crate::pages::static_file::StaticFile;

/// Each path with its methods and their handlers. `openapi/document.json` describes those that are not pages.
fn paths() -> Vec<Path> {
    let mut paths = vec![
        Path::new("/plants")
            // HEAD comes with each GET.
            .on(Method::GET, plants::list)
            .on(Method::POST, plants::create),
        Path::new("/plants/import").on(Method::POST, import::import),
        Path::new("/plants/export").on(Method::GET, export::export),
        Path::new("/plants/{id}")
            .on(Method::GET, plants::read)
            .on(Method::PUT, plants::put)
            .on(Method::PATCH, plants::patch)
            .on(Method::DELETE, plants::delete),
        Path::new("/tags").on(Method::GET, tags::list),
        Path::new("/events").on(Method::GET, events::events),
        Path::new("/token").on(Method::GET, token::describe),
        Path::open("/livez").on(Method::GET, health::live),
        Path::open("/readyz").on(Method::GET, health::ready),
        Path::open("/openapi.json").on(Method::GET, document),
        Path::open("/docs/").on(Method::GET, redirect("../docs")).page(),
    ];
    paths.extend(pages::files().map(|(path, file)| {
        let answer = move |request: HttpRequest| ready(file.answer(&request));
        Path::open(path).on(Method::GET, answer).page()
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

/// Every method of every path. HEAD is served wherever GET is, and OPTIONS on every path.
pub(crate) fn endpoints() -> impl Iterator<Item = Endpoint> {
    paths().into_iter().flat_map(|path| {
        path.methods.into_iter().map(move |method| {
            let scope = (!path.is_open).then(|| scope_needed(&method));
            Endpoint { path: path.pattern, method, scope, is_operation: !path.is_page }
        })
    })
}

/// The OpenAPI 3.1 document of the service: pretty-printed JSON that ends with a newline.
#[must_use]
pub fn openapi_document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi::document(endpoints()));
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
    is_page: bool,
    /// HEAD comes with GET.
    methods: Vec<Method>,
    resource: Resource,
}

impl Path {
    fn new(pattern: &'static str) -> Self {
        let resource = web::resource(pattern);
        Self { pattern, is_open: false, is_page: false, methods: Vec::new(), resource }
    }

    fn open(pattern: &'static str) -> Self {
        Self { is_open: true, ..Self::new(pattern) }
    }

    /// The same path as a page for people, or one of its files.
    fn page(self) -> Self {
        Self { is_page: true, ..self }
    }

    fn on<F, Arguments>(mut self, method: Method, handler: F) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.resource = self.resource.route(route_for(with_head(&method)).to(handler));
        self.methods.push(method);
        self
    }

    fn into_resource(self) -> Resource {
        let takes_patches = self.methods.contains(&Method::PATCH);
        let methods = self.methods.iter().flat_map(with_head);
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
