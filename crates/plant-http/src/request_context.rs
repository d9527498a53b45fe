//! What is known of a request while it is answered: its id, whose token it came with, whether that let it in,
//! and which plant it is about.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;
use std::time::SystemTime;

use actix_http::header::{HeaderName, HeaderValue};
use actix_http::{HttpMessage as _, Request};
use actix_web::HttpRequest;
use plant_domain::PlantId;
use uuid::{Timestamp, Uuid};

use crate::access::gate::{Gate, Identity};
use crate::audit::ImportCounts;
use crate::errors::Failure;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that is taken from a client, in characters.
pub(crate) const REQUEST_ID_MAX_CHARACTERS: usize = 128;

/// It travels with the request.
#[derive(Debug)]
pub(crate) struct RequestContext {
    id: HeaderValue,
    /// Whose token it came with, also where that did not let it in.
    identity: OnceCell<Identity>,
    is_let_in: Cell<bool>,
    plant: Cell<Option<PlantId>>,
    import: Cell<Option<ImportCounts>>,
}

impl RequestContext {
    /// That of this request.
    pub(crate) fn of_request(request: &Request) -> Rc<Self> {
        if let Some(context) = request.extensions().get::<Rc<Self>>() {
            return Rc::clone(context);
        }
        let context = Rc::new(Self {
            id: request_id(request),
            identity: OnceCell::new(),
            is_let_in: Cell::new(false),
            plant: Cell::new(None),
            import: Cell::new(None),
        });
        request.extensions_mut().insert(Rc::clone(&context));
        context
    }

    /// That of a request which a handler has.
    ///
    /// # Errors
    ///
    /// Where the handler does not run behind an exchange.
    pub(crate) fn of_handled(request: &HttpRequest) -> Result<Rc<Self>, Failure> {
        request.extensions().get::<Rc<Self>>().map(Rc::clone).ok_or_else(Failure::internal)
    }

    pub(crate) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// Asks the gate whether the request may be answered. It counts once against the rate of its token,
    /// however often this is asked.
    pub(crate) fn authorize(&self, gate: &Gate, request: &Request) -> Result<(), Failure> {
        if self.is_let_in() {
            return Ok(());
        }
        let head = request.head();
        if let Some(identity) = gate.identify(head)? {
            self.identity.get_or_init(|| identity).admit(&head.method)?;
        }
        self.is_let_in.set(true);
        Ok(())
    }

    pub(crate) fn is_let_in(&self) -> bool {
        self.is_let_in.get()
    }

    /// For a request that goes on for long: whether its token still is in force.
    pub(crate) fn check_token(&self) -> Result<(), Failure> {
        self.identity.get().map_or(Ok(()), Identity::check)
    }

    /// The request is about this plant. Its body may have taken long to come, so the token is looked at once
    /// more.
    pub(crate) fn is_about(&self, plant: PlantId) -> Result<(), Failure> {
        self.plant.set(Some(plant));
        self.check_token()
    }

    /// The request is an import, of which more is known.
    pub(crate) fn count_import(&self, count: impl FnOnce(&mut ImportCounts)) {
        let mut counts = self.import.get().unwrap_or_default();
        count(&mut counts);
        self.import.set(Some(counts));
    }

    /// What is known of the import, where the request is one.
    pub(crate) fn import_counts(&self) -> Option<ImportCounts> {
        self.import.get()
    }
}

/// `id=… token=… plant=…`, without what is not known.
impl fmt::Display for RequestContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is visible ASCII, or we made it.
        write!(formatter, "id={}", self.id.to_str().unwrap_or_default())?;
        if let Some(identity) = self.identity.get() {
            write!(formatter, " token={}", identity.token_name())?;
        }
        if let Some(plant) = self.plant.get() {
            write!(formatter, " plant={plant}")?;
        }
        Ok(())
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
            // An id with the time in it cannot be made of one before 1970.
            let id = match SystemTime::UNIX_EPOCH.elapsed() {
                Ok(_) => Uuid::now_v7(),
                Err(_) => Uuid::new_v7(Timestamp::from_unix_time(0, 0, 0, 0)),
            };
            let id = id.hyphenated().encode_lower(&mut text);
            HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("-"))
        }
    }
}
