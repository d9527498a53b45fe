//! The state of a connection's requests. The middleware writes it, and the guards around actix-http read it.

use std::cell::Cell;
use std::task::Waker;

use tokio::time::{Instant, sleep};

use crate::server::deadlines::{DISCONNECT_DEADLINE, FIRST_BYTES_GRACE, HEAD_DEADLINE, KEEP_ALIVE};
use crate::server::http1::framing::BodyLength;

/// What a connection waits for.
#[derive(Clone, Copy, Default)]
enum Waiting {
    /// The first bytes. actix-http's deadline for the first head covers them.
    #[default]
    ForFirstBytes,
    /// The rest of the first head, or the end of an answer, which have deadlines elsewhere.
    Elsewhere,
    /// The next request, since this time.
    ForRequest(Instant),
    /// The end of a head that began at this time.
    ForHead(Instant),
}

/// Shared by the exchanges of a connection and the connection itself.
#[derive(Default)]
pub(crate) struct ConnectionState {
    waiting: Cell<Waiting>,
    has_unread_body: Cell<bool>,
    is_closing: Cell<bool>,
    /// The body of a request that has begun, until the connection takes this.
    pub(super) body: Cell<Option<BodyLength>>,
    /// Whether the last request that began is answered.
    pub(super) is_answered: Cell<bool>,
    /// Whether bytes have arrived whose turn has not come. Behind a body that was read, they are the next request's.
    pub(super) has_ahead: Cell<bool>,
    /// The task that waits for a request to begin, or to be answered.
    pub(super) reader: Cell<Option<Waker>>,
}

impl ConnectionState {
    /// A request begins. With `is_last`, it asks to close the connection.
    pub(crate) fn request_begins(&self, body: BodyLength, is_last: bool) {
        self.waiting.set(Waiting::Elsewhere);
        self.has_unread_body.set(body != BodyLength::Bytes(0));
        self.is_closing.set(is_last);
        self.body.set(Some(body));
        self.is_answered.set(false);
        self.wake_reader();
    }

    pub(crate) fn body_was_read(&self) {
        self.has_unread_body.set(false);
    }

    /// An answer begins. It closes the connection when it says so itself, when the body was not read, and in the
    /// drain when nothing of another request has arrived.
    pub(crate) fn answer_begins(&self, is_last: bool, drains: bool) {
        let is_at_end = drains && !self.has_ahead.get();
        if is_last || is_at_end || self.has_unread_body.get() {
            self.is_closing.set(true);
        }
    }

    pub(crate) fn answer_ends(&self) {
        self.waiting.set(Waiting::ForRequest(Instant::now()));
        self.is_answered.set(true);
        self.wake_reader();
    }

    fn wake_reader(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Whether the connection closes with the answer to the current request.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// Bytes arrived, or their turn has come.
    pub(super) fn bytes_came(&self) {
        match self.waiting.get() {
            Waiting::ForFirstBytes => self.waiting.set(Waiting::Elsewhere),
            // They are discarded.
            Waiting::ForRequest(_) if self.is_closing.get() => {}
            Waiting::ForRequest(_) => self.waiting.set(Waiting::ForHead(Instant::now())),
            Waiting::Elsewhere | Waiting::ForHead(_) => {}
        }
    }

    /// Whether every request is answered of which anything has arrived.
    pub(super) fn is_at_rest(&self) -> bool {
        let waiting = self.waiting.get();
        // After a closing answer, the connection ends by itself when the client has read the answer.
        !self.is_closing.get() && matches!(waiting, Waiting::ForFirstBytes | Waiting::ForRequest(_))
    }

    pub(super) async fn grace_for_first_bytes(&self) {
        if let Waiting::ForFirstBytes = self.waiting.get() {
            sleep(FIRST_BYTES_GRACE).await;
        }
    }

    /// The deadline for the client, if it is the client's turn.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.waiting.get() {
            Waiting::ForFirstBytes | Waiting::Elsewhere => None,
            Waiting::ForRequest(since) if self.is_closing.get() => {
                Some(since + DISCONNECT_DEADLINE)
            }
            // actix-http ends an idle connection before, unless it cannot write the answer.
            Waiting::ForRequest(since) => Some(since + KEEP_ALIVE + HEAD_DEADLINE),
            Waiting::ForHead(since) => Some(since + HEAD_DEADLINE),
        }
    }
}
