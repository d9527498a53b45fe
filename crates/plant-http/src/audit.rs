//! What is known of a request while it is answered, and what the log tells of it: whose token it came
//! with, which plant it is about, and how it ended.
//!
//! Each request has one line. It stands under `plantd::audit` when the request may change something and
//! has passed the gate, else under `plantd::access`. Each plant that an import brings has a line of its
//! own, under `plantd::audit::import`. No line holds a query, a header but the request's id, or a body:
//! each may hold a secret.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;

use actix_http::header::{HeaderName, HeaderValue};
use actix_http::{HttpMessage as _, Request};
use actix_web::HttpRequest;
use log::Level;
use plant_domain::PlantId;
use plant_store::Imported;
use uuid::Uuid;

use crate::failure::Failure;
use crate::gate::{Gate, Pass};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that is taken from a client, in characters.
const REQUEST_ID_MAX_CHARACTERS: usize = 128;

pub(crate) const ACCESS_LOG: &str = "plantd::access";
pub(crate) const AUDIT_LOG: &str = "plantd::audit";
const IMPORT_LOG: &str = "plantd::audit::import";

/// What is known of a request while it is answered.
#[derive(Debug)]
pub(crate) struct Audit {
    request_id: HeaderValue,
    /// With what it came to the gate, also when it was not let in.
    pass: OnceCell<Pass>,
    is_let_in: Cell<bool>,
    plant: Cell<Option<PlantId>>,
}

impl Audit {
    /// That of this request, which travels with it.
    pub(crate) fn of_request(request: &Request) -> Rc<Self> {
        if let Some(audit) = request.extensions().get::<Rc<Self>>() {
            return Rc::clone(audit);
        }
        let request_id = request_id(request);
        let audit = Rc::new(Self {
            request_id,
            pass: OnceCell::new(),
            is_let_in: Cell::new(false),
            plant: Cell::new(None),
        });
        request.extensions_mut().insert(Rc::clone(&audit));
        audit
    }

    /// That of a request which a handler has.
    ///
    /// # Errors
    ///
    /// Where the handler does not run behind an exchange.
    pub(crate) fn of_handled(request: &HttpRequest) -> Result<Rc<Self>, Failure> {
        request.extensions().get::<Rc<Self>>().map(Rc::clone).ok_or_else(Failure::internal)
    }

    pub(crate) fn request_id(&self) -> &HeaderValue {
        &self.request_id
    }

    /// Asks the gate once whether the request may be answered.
    pub(crate) fn check(&self, gate: &Gate, request: &Request) -> Result<(), Failure> {
        if !self.is_let_in() {
            gate.check(request.head(), |pass| {
                // A request comes with one token.
                let _ = self.pass.set(pass);
            })?;
            self.is_let_in.set(true);
        }
        Ok(())
    }

    pub(crate) fn is_let_in(&self) -> bool {
        self.is_let_in.get()
    }

    /// For a request that goes on for long: whether its token still is in force.
    pub(crate) fn check_token(&self) -> Result<(), Failure> {
        self.pass.get().map_or(Ok(()), Pass::check)
    }

    /// The request is about this plant.
    pub(crate) fn is_about(&self, plant: PlantId) {
        self.plant.set(Some(plant));
    }

    /// The request brings these plants. What becomes of them is logged when it is known, or when it will
    /// not be known any more.
    pub(crate) fn begin_import(self: &Rc<Self>, plants: Vec<PlantId>) -> AuditedImport {
        let plants =
            if log::log_enabled!(target: IMPORT_LOG, Level::Info) { plants } else { vec![] };
        AuditedImport { audit: Rc::clone(self), plants }
    }
}

/// `id=… token=… plant=…`, without what is not known.
impl fmt::Display for Audit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is visible ASCII, or we made it.
        write!(formatter, "id={}", self.request_id.to_str().unwrap_or_default())?;
        if let Some(pass) = self.pass.get() {
            write!(formatter, " token={}", pass.token_name())?;
        }
        if let Some(plant) = self.plant.get() {
            write!(formatter, " plant={plant}")?;
        }
        Ok(())
    }
}

/// Plants on their way to the repository.
pub(crate) struct AuditedImport {
    audit: Rc<Audit>,
    /// Those of which nothing was logged yet.
    plants: Vec<PlantId>,
}

impl AuditedImport {
    /// This became of them, in their order.
    pub(crate) fn end(mut self, imported: &[Imported]) {
        for (plant, imported) in self.plants.drain(..).zip(imported) {
            let outcome = match imported {
                Imported::Created => "created",
                Imported::Replaced => "replaced",
                // Nothing changed.
                Imported::Skipped | Imported::IdTaken => continue,
            };
            log::info!(target: IMPORT_LOG, "{outcome} {} plant={plant}", self.audit);
        }
    }
}

/// The client went away, or the store failed.
impl Drop for AuditedImport {
    fn drop(&mut self) {
        for plant in &self.plants {
            log::info!(target: IMPORT_LOG, "unknown {} plant={plant}", self.audit);
        }
    }
}

/// The client's own id for the request, when it can stand in a log line, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let mut sent = request.headers().get_all(REQUEST_ID);
    match (sent.next(), sent.next()) {
        (Some(id), None)
            if (1..=REQUEST_ID_MAX_CHARACTERS).contains(&id.len())
                && id.as_bytes().iter().all(u8::is_ascii_graphic) =>
        {
            id.clone()
        }
        _ => {
            let mut text = Uuid::encode_buffer();
            let id = Uuid::now_v7().hyphenated().encode_lower(&mut text);
            HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("-"))
        }
    }
}
