//! What a connection knows of its requests. The middleware writes it, the guards around actix-http read it.

use std::cell::Cell;
use std::task::Waker;

use actix_http::StatusCode;
use tokio::time::{Instant, sleep};

use crate::server::deadlines::{DISCONNECT_DEADLINE, FIRST_BYTES_GRACE, HEAD_DEADLINE, KEEP_ALIVE};
use crate::server::http1::framing::BodyLength;

/// What a connection waits for.
#[derive(Clone, Copy)]
enum Waiting {
    /// The first bytes. Their deadline is that of the first head.
    ForFirstBytes,
    /// The rest of its first head, or the end of an answer: both have deadlines of their own.
    Elsewhere,
    /// The next request, since then.
    ForRequest(Instant),
    /// The end of a head that began then.
    ForHead(Instant),
}

/// Told by the exchanges of a connection, and asked by the connection.
pub(crate) struct ConnectionState {
    waiting: Cell<Waiting>,
    turn: Turn,
    has_unread_body: Cell<bool>,
    is_closing: Cell<bool>,
}

impl ConnectionState {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Cell::new(Waiting::ForFirstBytes),
            turn: Turn::new(),
            has_unread_body: Cell::new(false),
            is_closing: Cell::new(false),
        }
    }

    /// A request begins, which may ask for the end of the connection.
    pub(crate) fn request_begins(&self, body: BodyLength, is_last: bool) {
        self.waiting.set(Waiting::Elsewhere);
        self.has_unread_body.set(body != BodyLength::Bytes(0));
        self.is_closing.set(is_last);
        self.turn.request_begins(body);
    }

    pub(crate) fn body_was_read(&self) {
        self.has_unread_body.set(false);
    }

    /// An answer begins, which may say itself that it is the last. In the drain it is where nothing of
    /// another request has come.
    pub(crate) fn answer_begins(&self, is_last: bool, drains: bool) {
        let is_at_end = drains && !self.turn.has_ahead();
        if is_last || is_at_end || self.has_unread_body.get() {
            self.is_closing.set(true);
        }
    }

    pub(crate) fn answer_ends(&self) {
        self.waiting.set(Waiting::ForRequest(Instant::now()));
        self.turn.answer_ends();
    }

    /// What decides when the next request is read.
    pub(crate) const fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Whether the connection ends with the answer to this request.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// Bytes came, or have their turn now.
    pub(crate) fn bytes_came(&self) {
        match self.waiting.get() {
            Waiting::ForFirstBytes => self.waiting.set(Waiting::Elsewhere),
            // Nobody reads them.
            Waiting::ForRequest(_) if self.is_closing.get() => {}
            Waiting::ForRequest(_) => self.waiting.set(Waiting::ForHead(Instant::now())),
            Waiting::Elsewhere | Waiting::ForHead(_) => {}
        }
    }

    /// Whether nothing of a request has come to which no answer was given.
    pub(super) fn is_at_rest(&self) -> bool {
        let waiting = self.waiting.get();
        // After an answer that closes it, the connection ends by itself when the client has got that.
        !self.is_closing.get() && matches!(waiting, Waiting::ForFirstBytes | Waiting::ForRequest(_))
    }

    pub(super) async fn grace_for_first_bytes(&self) {
        if let Waiting::ForFirstBytes = self.waiting.get() {
            sleep(FIRST_BYTES_GRACE).await;
        }
    }

    /// Until when something has to come from the client, if it is the client's turn.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.waiting.get() {
            Waiting::ForFirstBytes | Waiting::Elsewhere => None,
            // Nothing is read from it any more.
            Waiting::ForRequest(since) if self.is_closing.get() => {
                Some(since + DISCONNECT_DEADLINE)
            }
            // actix-http ends the rest itself, unless it cannot get rid of the answer.
            Waiting::ForRequest(since) => Some(since + KEEP_ALIVE + HEAD_DEADLINE),
            Waiting::ForHead(since) => Some(since + HEAD_DEADLINE),
        }
    }
}

/// How far a request is: told by its exchange, and asked by the pipeline.
pub(crate) struct Turn {
    /// How long the body is of which nothing was asked for yet.
    pub(super) body: Cell<Option<BodyLength>>,
    pub(super) is_answered: Cell<bool>,
    pub(super) has_ahead: Cell<bool>,
    pub(super) broken_off: Cell<Option<BrokenOff>>,
    /// The task that waits for the request to begin, or to be answered.
    pub(super) waiting: Cell<Option<Waker>>,
}

impl Turn {
    pub(crate) const fn new() -> Self {
        Self {
            body: Cell::new(None),
            is_answered: Cell::new(false),
            has_ahead: Cell::new(false),
            broken_off: Cell::new(None),
            waiting: Cell::new(None),
        }
    }

    pub(crate) fn request_begins(&self, body: BodyLength) {
        self.body.set(Some(body));
        self.is_answered.set(false);
        self.wake();
    }

    pub(crate) fn answer_ends(&self) {
        self.is_answered.set(true);
        self.wake();
    }

    /// Whether bytes have come that it is not the turn of yet. When the body of this request was read, they
    /// are those of the next one.
    pub(crate) fn has_ahead(&self) -> bool {
        self.has_ahead.get()
    }

    fn wake(&self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }
}

/// Why nothing more of what the client sends is given to actix-http.
#[derive(Clone, Copy)]
pub(super) enum BrokenOff {
    /// A chunk is broken. actix-http answers.
    Body,
    /// A head is over a limit. actix-http waits for its end, so that the answer is not actix-http's.
    Head(StatusCode),
}
