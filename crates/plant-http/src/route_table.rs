//! Finds the route of a path: what a request needs to be let in, where it is counted, and what answers it. It takes the
//! place of actix-web's router, which tries one route after the other, and knows a route only when it calls the handler.

use std::collections::HashMap;
use std::rc::Rc;

use actix_http::{Method, Payload};
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Responder};
use futures_util::future::LocalBoxFuture;

use crate::access::gate::Access;
use crate::metrics::EndpointMetrics;

/// The routes of a service, for the requests of one thread.
pub(crate) struct RouteTable {
    by_path: HashMap<&'static str, RouteEntry>,
    /// Routes with a parameter, by what comes before and after it.
    by_parameter: Vec<((&'static str, &'static str), RouteEntry)>,
    unknown: RouteEntry,
}

/// Answers a request: extracts what a function takes, and calls it.
pub(crate) type RouteHandler =
    Box<dyn Fn(HttpRequest, Payload) -> LocalBoxFuture<'static, HttpResponse>>;

/// The access, the counters and the handlers of a route.
pub(crate) struct RouteEntry {
    /// What GET and HEAD need.
    pub(crate) reads: Access,
    /// What the other methods need. OPTIONS needs nothing.
    pub(crate) changes: Access,
    pub(crate) methods: Vec<ServedMethod>,
    /// The counters of requests with a method that the route does not have.
    pub(crate) other: Rc<EndpointMetrics>,
    /// Answers requests with a method that the route does not have, such as OPTIONS.
    pub(crate) otherwise: RouteHandler,
    /// Whether the route serves a file that a page loads, such as a script.
    pub(crate) is_part_of_page: bool,
}

/// A method of a route. HEAD comes with GET.
pub(crate) struct ServedMethod {
    pub(crate) method: Method,
    pub(crate) metrics: Rc<EndpointMetrics>,
    pub(crate) handler: RouteHandler,
}

impl RouteTable {
    /// A table without routes. `unknown` is for the paths that it does not have.
    pub(crate) fn new(unknown: RouteEntry) -> Self {
        Self { by_path: HashMap::new(), by_parameter: Vec::new(), unknown }
    }

    /// Adds a route. Its pattern may have a parameter, which is one segment.
    pub(crate) fn add(&mut self, pattern: &'static str, route: RouteEntry) {
        let around = pattern.split_once('{').and_then(|(before, rest)| {
            let (_, after) = rest.split_once('}')?;
            Some((before, after))
        });
        match around {
            Some(around) => self.by_parameter.push((around, route)),
            None => drop(self.by_path.insert(pattern, route)),
        }
    }

    /// The route of a path, which begins behind the mount of the service.
    pub(crate) fn find(&self, path: &str) -> &RouteEntry {
        let fits = |(before, after): &(&str, &str)| {
            let parameter = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            parameter.is_some_and(|parameter| !parameter.is_empty() && !parameter.contains('/'))
        };
        let by_parameter = || self.by_parameter.iter().find(|(around, _)| fits(around));
        let found = self.by_path.get(path).or_else(|| by_parameter().map(|(_, route)| route));
        found.unwrap_or(&self.unknown)
    }
}

impl RouteEntry {
    pub(crate) fn access(&self, method: &Method) -> Access {
        match *method {
            Method::OPTIONS => Access::Open,
            Method::GET | Method::HEAD => self.reads,
            _ => self.changes,
        }
    }

    /// The metrics of requests with this method.
    pub(crate) fn metrics_of(&self, method: &Method) -> &Rc<EndpointMetrics> {
        self.served(method).map_or(&self.other, |served| &served.metrics)
    }

    pub(crate) fn answer(
        &self,
        request: HttpRequest,
        payload: Payload,
    ) -> LocalBoxFuture<'static, HttpResponse> {
        let served = self.served(request.method());
        served.map_or(&self.otherwise, |served| &served.handler)(request, payload)
    }

    /// HEAD is GET, whose body actix-http leaves out.
    fn served(&self, method: &Method) -> Option<&ServedMethod> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        self.methods.iter().find(|served| served.method == *method)
    }
}

/// Calls this function for each request, with what it extracts from the request.
pub(crate) fn handle<F, Arguments>(function: F) -> RouteHandler
where
    F: Handler<Arguments>,
    Arguments: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    Box::new(move |request, mut payload| {
        let function = function.clone();
        Box::pin(async move {
            match Arguments::from_request(&request, &mut payload).await {
                Ok(arguments) => {
                    let answer = function.call(arguments).await;
                    answer.respond_to(&request).map_into_boxed_body()
                }
                Err(refusal) => HttpResponse::from_error(refusal),
            }
        })
    })
}
