//! The context of a request: its id, its token, the decision of the gate, and the plant that the request is about.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::SystemTime;

use actix_http::HttpMessage;
use actix_http::header::{HeaderMap, HeaderName, HeaderValue};
use log::Level;
use plant_domain::PlantId;
use plant_store::Author;
use uuid::{Timestamp, Uuid};

use crate::access::gate::{Access, Identity};
use crate::access::token_record::TokenRecord;
use crate::decimal::{INTEGER_MAX_CHARACTERS, push_integer};
use crate::errors::Failure;
use crate::limits::REQUEST_ID_MAX_CHARACTERS;
use crate::middleware::log_fields::{self, Field, FieldValue};
use crate::middleware::trace_context::TraceContext;

/// Where errors of requests are logged that clients must not see.
const ERROR_LOG: &str = "plantd::error";

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Kept in the request's extensions, from which handlers take it as `ReqData<Rc<RequestContext>>`.
#[derive(Debug)]
pub(crate) struct RequestContext {
    pub(super) id: HeaderValue,
    trace: Option<TraceContext>,
    /// The path that the service is mounted on, as the client wrote it; empty for the root.
    mount: OnceCell<String>,
    /// The request's token, even when the gate did not let the request in.
    identity: OnceCell<Identity>,
    pub(super) is_let_in: Cell<bool>,
    plant: Cell<Option<PlantId>>,
    pub(super) import: Cell<Option<ImportCounts>>,
    /// The number of requests in the batch.
    batch: Cell<Option<usize>>,
}

/// The outcomes of an import's rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ImportCounts {
    pub(crate) created: u64,
    pub(crate) replaced: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: u64,
    /// Rows that the repository has got, with unknown outcomes.
    pub(crate) unknown: u64,
}

impl RequestContext {
    /// The context of this request, created at the first call.
    pub(crate) fn of(request: &impl HttpMessage) -> Rc<Self> {
        if let Some(context) = request.extensions().get::<Rc<Self>>() {
            return Rc::clone(context);
        }
        let headers = request.headers();
        let context = Rc::new(Self {
            id: request_id(headers),
            trace: TraceContext::of(headers),
            mount: OnceCell::new(),
            identity: OnceCell::new(),
            is_let_in: Cell::new(false),
            plant: Cell::new(None),
            import: Cell::new(None),
            batch: Cell::new(None),
        });
        request.extensions_mut().insert(Rc::clone(&context));
        context
    }

    pub(crate) fn set_mount(&self, mount: &str) {
        self.mount.get_or_init(|| mount.to_owned());
    }

    /// The path of all plants.
    pub(crate) fn plants_path(&self) -> String {
        self.path("/plants")
    }

    /// The path of the tags.
    pub(crate) fn tags_path(&self) -> String {
        self.path("/tags")
    }

    /// The path of the events.
    pub(crate) fn events_path(&self) -> String {
        self.path("/events")
    }

    /// The path of the page for people, relative to that of the mount without a slash at its end. `./` stands before a
    /// segment with a colon, which would look like a scheme (RFC 3986, section 4.2).
    pub(crate) fn path_to_slash(&self) -> String {
        let mount = self.mount.get().map_or("", String::as_str);
        let last_segment = mount.rsplit('/').next().unwrap_or_default();
        format!("./{last_segment}/")
    }

    /// The value of `Link` for the next page at a path (RFC 8288).
    pub(crate) fn next_link(path: &str, query: &str) -> String {
        Self::link(path, query, "next")
    }

    /// The value of `Link` for a page at a path, which stands in this relation to the page in the answer.
    pub(crate) fn link(path: &str, query: &str, relation: &str) -> String {
        format!("<{path}?{query}>; rel=\"{relation}\"")
    }

    /// A path of the service behind the path that the service is mounted on.
    fn path(&self, path: &str) -> String {
        [self.mount.get().map_or("", String::as_str), path].concat()
    }

    /// The path of a plant.
    pub(crate) fn plant_path(&self, id: PlantId) -> String {
        let parts = [self.mount.get().map_or("", String::as_str), "/plants/"];
        let length = parts.map(str::len).into_iter().sum::<usize>() + INTEGER_MAX_CHARACTERS;
        let mut path = String::with_capacity(length);
        path.extend(parts);
        push_integer(&mut path, id.get());
        path
    }

    /// Whether the request may be answered. Repeated calls count once against the rate of the token.
    pub(crate) fn authorize(
        &self,
        access: Access,
        identify: impl FnOnce() -> Result<Identity, Failure>,
    ) -> Result<(), Failure> {
        if self.is_let_in.get() {
            return Ok(());
        }
        if access != Access::Open {
            let identity = identify()?;
            self.identity.get_or_init(|| identity).admit(access)?;
        }
        self.is_let_in.set(true);
        Ok(())
    }

    /// The record of the request's token; `None` on an open path.
    pub(crate) fn token(&self) -> Option<&TokenRecord> {
        self.identity.get().map(Identity::record)
    }

    /// The author of the changes of the request: the name of its token.
    pub(crate) fn author(&self) -> Option<Author> {
        self.token().map(|record| record.name.author().clone())
    }

    /// Fails if the token has expired or was revoked since the request began.
    pub(crate) fn check_still_valid(&self) -> Result<(), Failure> {
        self.identity.get().map_or(Ok(()), Identity::check_still_valid)
    }

    /// Adds the plant to the log line.
    pub(crate) fn record_plant(&self, plant: PlantId) {
        self.plant.set(Some(plant));
    }

    /// Adds the number of requests in a batch to the log line.
    pub(crate) fn record_batch(&self, requests: usize) {
        self.batch.set(Some(requests));
    }

    /// What the lines about this request have in common, as far as it is known.
    pub(super) fn fields(&self) -> [Field<'_>; 6] {
        let token = self.identity.get().map(|identity| &identity.record().name);
        let trace = self.trace.as_ref();
        [
            // Always visible ASCII, as `request_id` makes sure.
            Some(("id", FieldValue::Text(self.id.to_str().unwrap_or_default()))),
            token.map(|name| ("token", FieldValue::Text(name.author().name()))),
            self.plant.get().map(|plant| ("plant", FieldValue::Integer(plant.get()))),
            self.batch.get().map(|requests| ("requests", FieldValue::Count(requests as u64))),
            trace.map(|trace| ("trace_id", FieldValue::Text(trace.trace_id()))),
            trace.map(|trace| ("parent_id", FieldValue::Text(trace.parent_id()))),
        ]
    }

    /// Logs an error that the client must not see.
    pub(crate) fn log_error(&self, message: &str) {
        let first = [Some(("message", FieldValue::Text(message)))];
        log_fields::log(Level::Error, ERROR_LOG, format!("{message}:"), &first, &[&self.fields()]);
    }

    pub(crate) fn import_counts(&self) -> ImportCounts {
        self.import.get().unwrap_or_default()
    }

    /// Changes the counts of an import.
    pub(crate) fn count_import(&self, count: impl FnOnce(&mut ImportCounts)) {
        let mut counts = self.import_counts();
        count(&mut counts);
        self.import.set(Some(counts));
    }
}

impl ImportCounts {
    /// All counts, but `unknown` only if it is not 0.
    pub(super) fn fields(self) -> [Field<'static>; 5] {
        let Self { created, replaced, skipped, failed, unknown } = self;
        [
            Some(("created", FieldValue::Count(created))),
            Some(("replaced", FieldValue::Count(replaced))),
            Some(("skipped", FieldValue::Count(skipped))),
            Some(("failed", FieldValue::Count(failed))),
            (unknown > 0).then_some(("unknown", FieldValue::Count(unknown))),
        ]
    }
}

/// The client's own id for the request, if it is safe in a log line, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let mut sent = headers.get_all(REQUEST_ID);
    match (sent.next(), sent.next()) {
        (Some(id), None)
            if (1..=REQUEST_ID_MAX_CHARACTERS).contains(&id.len())
                && id.as_bytes().iter().all(u8::is_ascii_graphic) =>
        {
            id.clone()
        }
        _ => {
            let mut text = Uuid::encode_buffer();
            // A version 7 UUID cannot hold a time before 1970, which a wrong clock may show.
            let id = match SystemTime::UNIX_EPOCH.elapsed() {
                Ok(_) => Uuid::now_v7(),
                Err(_) => Uuid::new_v7(Timestamp::from_unix_time(0, 0, 0, 0)),
            };
            let id = id.hyphenated().encode_lower(&mut text);
            HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("-"))
        }
    }
}
