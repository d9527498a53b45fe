//! Finds the route of a path before actix-web does: what a request needs to be let in, and where it is counted.

use std::collections::HashMap;
use std::rc::Rc;

use actix_http::Method;

use crate::access::gate::Access;
use crate::metrics::EndpointMetrics;

/// The routes of a service, for the requests of one thread.
pub(crate) struct RouteTable {
    by_path: HashMap<&'static str, RouteEntry>,
    /// Routes with a parameter, by what comes before and after it.
    by_parameter: Vec<((&'static str, &'static str), RouteEntry)>,
    unknown: RouteEntry,
}

/// The access and the counters of a route.
pub(crate) struct RouteEntry {
    /// What GET and HEAD need.
    pub(crate) reads: Access,
    /// What the other methods need. OPTIONS needs nothing.
    pub(crate) changes: Access,
    pub(crate) endpoints: Vec<(Method, Rc<EndpointMetrics>)>,
    /// The counters of requests with a method that the route does not have.
    pub(crate) other: Rc<EndpointMetrics>,
    /// Whether the route serves a file that a page loads, such as a script.
    pub(crate) is_part_of_page: bool,
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

    /// The route of a path, which begins behind the mount of the service. The mount without a slash is admitted and counted
    /// as `/`, where it leads.
    pub(crate) fn find(&self, path: &str) -> &RouteEntry {
        let path = if path.is_empty() { "/" } else { path };
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

    /// The metrics of requests with this method. HEAD counts as GET.
    pub(crate) fn metrics_of(&self, method: &Method) -> &Rc<EndpointMetrics> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let found = self.endpoints.iter().find(|(served, _)| served == method);
        found.map_or(&self.other, |(_, endpoint)| endpoint)
    }
}
