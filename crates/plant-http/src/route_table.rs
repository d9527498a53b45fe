//! Finds the route of a path before actix-web does: what a request needs to be let in, and where it is counted.

use std::collections::HashMap;
use std::rc::Rc;

use actix_http::Method;

use crate::access::gate::Access;
use crate::metrics::EndpointMetrics;

/// The routes of a service, for the requests of one thread.
pub(crate) struct RouteTable {
    by_path: HashMap<&'static str, RouteEntry>,
    /// Routes whose last segment is a parameter, by what comes before it.
    by_folder: Vec<(&'static str, RouteEntry)>,
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
        Self { by_path: HashMap::new(), by_folder: Vec::new(), unknown }
    }

    /// Adds a route. Its pattern may have a parameter as the last segment.
    ///
    /// # Panics
    ///
    /// When the parameter is elsewhere: requests of the route would be taken for those of another.
    pub(crate) fn add(&mut self, pattern: &'static str, route: RouteEntry) {
        let last_segment = pattern.rsplit('/').next().unwrap_or_default();
        assert_eq!(pattern.matches('{').count(), last_segment.matches('{').count(), "{pattern}");
        match pattern.split_once('{') {
            Some((folder, _)) => self.by_folder.push((folder, route)),
            None => drop(self.by_path.insert(pattern, route)),
        }
    }

    /// The route of a path, which begins behind the mount of the service. The mount without a slash is admitted and counted
    /// as `/`, where it leads.
    pub(crate) fn find(&self, path: &str) -> &RouteEntry {
        let path = if path.is_empty() { "/" } else { path };
        let is_in = |folder: &str| {
            let segment = path.strip_prefix(folder);
            segment.is_some_and(|segment| !segment.is_empty() && !segment.contains('/'))
        };
        let by_folder = || self.by_folder.iter().find(|(folder, _)| is_in(folder));
        let found = self.by_path.get(path).or_else(|| by_folder().map(|(_, route)| route));
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
