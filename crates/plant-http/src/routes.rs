//! All routes on one screen.

use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::LazyLock;

use actix_http::Method;
use actix_http::header::{self, HeaderName, HeaderValue};
use actix_web::web::ReqData;
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Responder};

use crate::access::gate::Access;
use crate::access::token_record::Scope;
use crate::errors::{self, ErrorNumber, Failure};
use crate::extract::media_type::{JSON, MERGE_PATCH};
use crate::handlers::{
    backup, batch, events, export, health, history, import, metrics, plants, tags, token, webhooks,
};
use crate::metrics::RequestMetrics;
use crate::middleware::context::RequestContext;
use crate::openapi::{self, Endpoint};
use crate::pages;
use crate::pages::static_file::StaticFile;
use crate::route_table::{RouteEntry, RouteHandler, RouteTable, ServedMethod, handle};

/// Which routes an application has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Routes {
    All,
    /// For a scraper and a load balancer, on an address where no route needs a token.
    Monitoring,
}

/// Each path with its methods and their handlers. `openapi/document.json` describes those that are not pages.
fn all() -> Vec<Path> {
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
        Path::new("/plants/{id}/history").on(Method::GET, history::list),
        Path::new("/batch").on(Method::POST, batch::batch),
        Path::new("/tags").on(Method::GET, tags::list),
        Path::new("/events").on(Method::GET, events::events),
        Path::needing(Access::Scope(Scope::Backup), "/backup").on(Method::GET, backup::backup),
        Path::needing(Access::Scope(Scope::Write), "/webhooks").on(Method::GET, webhooks::list),
        Path::needing(Access::AnyToken, "/token").on(Method::GET, token::describe),
        Path::open("/openapi.json").on(Method::GET, document),
        Path::open("/docs/").on(Method::GET, async || redirect("../docs")).of_page(),
        // The page at `/` names its files relative to its own path, so it is served only behind the slash.
        Path::open(MOUNT_WITHOUT_SLASH).on(Method::GET, redirect_to_slash).of_page(),
    ];
    paths.extend(monitoring(Access::Scope(Scope::Metrics)));
    paths.extend(pages::files().map(|(path, file)| {
        let answer = move |request: HttpRequest| ready(file.answer(&request));
        let is_part_of_page = file.is_part_of_page();
        Path { is_part_of_page, ..Path::open(path).on(Method::GET, answer).of_page() }
    }));
    paths
}

/// The paths that tell how the service is doing. Reading the metrics needs `access`.
fn monitoring(access: Access) -> Vec<Path> {
    vec![
        Path::open("/livez").on(Method::GET, health::live),
        Path::open("/readyz").on(Method::GET, health::ready),
        Path::needing(access, "/metrics").on(Method::GET, metrics::read),
    ]
}

impl Routes {
    fn paths(self) -> Vec<Path> {
        match self {
            Self::All => all(),
            Self::Monitoring => monitoring(Access::Open),
        }
    }

    /// What a method that may change something needs, on every path.
    fn changes(self) -> Access {
        match self {
            Self::All => Access::Scope(Scope::Write),
            Self::Monitoring => Access::Open,
        }
    }

    fn no_such_path(self, context: &RequestContext) -> Failure {
        let message = match self {
            Self::All => errors::no_such_path(&context.plants_path()),
            Self::Monitoring => {
                "there is no such path; here are /metrics, /livez and /readyz alone".to_owned()
            }
        };
        Failure::new(ErrorNumber::NoSuchPath, message)
    }

    /// The routes, for the requests of one thread.
    pub(crate) fn table(self, metrics: &RequestMetrics) -> RouteTable {
        let paths = self.paths();
        let mut methods = Vec::new();
        for (method, _) in paths.iter().flat_map(|path| &path.handlers) {
            if !methods.contains(method) {
                methods.push(method.clone());
            }
        }
        let allow = allow(methods.iter());
        let unknown = move |request: HttpRequest, context: ReqData<Rc<RequestContext>>| {
            // The server as a whole (RFC 9110, section 9.3.7).
            let is_about_server = request.method() == Method::OPTIONS && request.path() == "*";
            let options = is_about_server.then(|| options(&allow));
            ready(options.ok_or_else(|| self.no_such_path(&context)))
        };
        let other = Rc::new(metrics.other());
        let mut table = RouteTable::new(RouteEntry {
            reads: match self {
                Self::All => Access::Scope(Scope::Read),
                Self::Monitoring => Access::Open,
            },
            changes: self.changes(),
            methods: Vec::new(),
            other: Rc::clone(&other),
            otherwise: handle(unknown),
            is_part_of_page: false,
        });
        for path in paths {
            let otherwise = handle(path.without_method());
            // One label for all pages: they are many, and alike.
            let label = if path.belongs_to_page { "page" } else { path.pattern };
            let served = |(method, handler): (Method, RouteHandler)| {
                let metrics = Rc::new(metrics.endpoint(label, method.as_str()));
                ServedMethod { method, metrics, handler }
            };
            let entry = RouteEntry {
                reads: path.reads,
                changes: self.changes(),
                methods: path.handlers.into_iter().map(served).collect(),
                other: Rc::clone(&other),
                otherwise,
                is_part_of_page: path.is_part_of_page,
            };
            table.add(path.pattern, entry);
        }
        table
    }
}

/// The path that a service is mounted on, seen from the service.
const MOUNT_WITHOUT_SLASH: &str = "";

/// Every method of every path. HEAD is served wherever GET is, and OPTIONS on every path.
pub(crate) fn endpoints() -> impl Iterator<Item = Endpoint> {
    all().into_iter().filter(|path| path.pattern != MOUNT_WITHOUT_SLASH).flat_map(|path| {
        path.handlers.into_iter().map(move |(method, _)| {
            let is_read = method == Method::GET;
            let access = if is_read { path.reads } else { Routes::All.changes() };
            Endpoint { path: path.pattern, method, access, is_operation: !path.belongs_to_page }
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
    /// What GET and HEAD need.
    reads: Access,
    /// Whether it is a page for people, a file of one, or a redirect to one.
    belongs_to_page: bool,
    /// Whether it is a file that a page loads, such as a script.
    is_part_of_page: bool,
    /// HEAD comes with GET.
    handlers: Vec<(Method, RouteHandler)>,
}

impl Path {
    /// A path whose reads need the scope `read`.
    fn new(pattern: &'static str) -> Self {
        Self::needing(Access::Scope(Scope::Read), pattern)
    }

    fn open(pattern: &'static str) -> Self {
        Self::needing(Access::Open, pattern)
    }

    fn needing(reads: Access, pattern: &'static str) -> Self {
        Self {
            pattern,
            reads,
            belongs_to_page: false,
            is_part_of_page: false,
            handlers: Vec::new(),
        }
    }

    /// The same path, which belongs to a page for people.
    fn of_page(self) -> Self {
        Self { belongs_to_page: true, ..self }
    }

    fn on<F, Arguments>(mut self, method: Method, handler: F) -> Self
    where
        F: Handler<Arguments>,
        Arguments: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.handlers.push((method, handle(handler)));
        self
    }

    /// Answers OPTIONS, and refuses the methods that the path does not have.
    fn without_method(
        &self,
    ) -> impl Fn(HttpRequest) -> Ready<Result<HttpResponse, Failure>> + Clone + use<> {
        let methods = || self.handlers.iter().map(|(method, _)| method);
        let allow = allow(methods());
        let takes_patches = methods().any(|method| *method == Method::PATCH);
        move |request| {
            if *request.method() != Method::OPTIONS {
                return ready(Err(Failure::no_such_method(&allow)));
            }
            let mut options = options(&allow);
            if takes_patches {
                // RFC 5789, section 3.1.
                let patches = HeaderValue::from_static(MERGE_PATCH);
                options.headers_mut().insert(HeaderName::from_static("accept-patch"), patches);
            }
            ready(Ok(options))
        }
    }
}

/// The value of `Allow` for a path with these methods. HEAD works wherever GET does.
fn allow<'a>(methods: impl Iterator<Item = &'a Method>) -> String {
    let mut names = Vec::new();
    for method in methods {
        names.push(method.as_str());
        if *method == Method::GET {
            names.push("HEAD");
        }
    }
    [&names[..], &["OPTIONS"]].concat().join(", ")
}

/// The answer to OPTIONS.
fn options(allow: &str) -> HttpResponse {
    HttpResponse::NoContent().insert_header((header::ALLOW, allow)).finish()
}

async fn redirect_to_slash(context: ReqData<Rc<RequestContext>>) -> HttpResponse {
    redirect(&context.path_to_slash())
}

/// Redirects browsers. The address is relative, because a proxy may put a prefix before the path.
fn redirect(location: &str) -> HttpResponse {
    HttpResponse::TemporaryRedirect().insert_header((header::LOCATION, location)).finish()
}
