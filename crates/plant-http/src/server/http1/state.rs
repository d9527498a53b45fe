//! The state of a connection's requests. The middleware writes it, and the guards around actix-http read it.

use std::cell::Cell;
use std::task::Waker;

use tokio::time::{Instant, sleep};

use crate::server::deadlines::{DISCONNECT_DEADLINE, FIRST_BYTES_GRACE, HEAD_DEADLINE, KEEP_ALIVE};
use crate::server::http1::framing::BodyLength;

/// Shared by the exchanges of a connection and the connection itself.
#[derive(Default)]
pub(crate) struct ConnectionState {
    /// Whether a request has begun to arrive and is not answered, or the answer closes the connection.
    is_busy: Cell<bool>,
    /// The deadline for the client to send the next request, or the rest of its head. `None` before the end of the
    /// first head and during an answer, which have deadlines elsewhere.
    deadline: Cell<Option<Instant>>,
    has_unread_body: Cell<bool>,
    is_closing: Cell<bool>,
    /// The body of a request that has begun, until the connection takes this.
    pub(super) body: Cell<Option<BodyLength>>,
    /// Whether the last request that began is answered.
    pub(super) is_answered: Cell<bool>,
    /// Whether bytes have arrived whose turn has not come. Behind a complete body, they belong to the next request.
    pub(super) has_ahead: Cell<bool>,
    /// The task that waits for a request to begin, or to be answered.
    pub(super) reader: Cell<Option<Waker>>,
}

impl ConnectionState {
    /// A request begins. With `is_last`, it asks to close the connection.
    pub(crate) fn request_begins(&self, body: BodyLength, is_last: bool) {
        self.is_busy.set(true);
        self.deadline.set(None);
        self.has_unread_body.set(body != BodyLength::Bytes(0));
        self.is_closing.set(is_last);
        self.body.set(Some(body));
        self.is_answered.set(false);
        self.wake_reader();
    }

    pub(crate) fn body_was_read(&self) {
        self.has_unread_body.set(false);
    }

    /// An answer begins. The connection will close if the answer says so, if the body was not read, or, in the
    /// drain, if no byte of another request has arrived.
    pub(crate) fn answer_begins(&self, is_last: bool, drains: bool) {
        let is_at_end = drains && !self.has_ahead.get();
        if is_last || is_at_end || self.has_unread_body.get() {
            self.is_closing.set(true);
        }
    }

    pub(crate) fn answer_ends(&self) {
        // An idle connection is closed by actix-http, but not while it cannot write the answer.
        let allowed =
            if self.is_closing() { DISCONNECT_DEADLINE } else { KEEP_ALIVE + HEAD_DEADLINE };
        self.deadline.set(Some(Instant::now() + allowed));
        // After a closing answer, the connection ends by itself when the client has read the answer.
        self.is_busy.set(self.is_closing());
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

    /// Bytes of a request have arrived, or their turn has come.
    pub(super) fn bytes_came(&self) {
        // actix-http has a deadline for the first head, but for no later one.
        if !self.is_busy.replace(true) && self.deadline.get().is_some() {
            self.deadline.set(Some(Instant::now() + HEAD_DEADLINE));
        }
    }

    /// Whether the connection waits for a request of which nothing has arrived.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy.get()
    }

    pub(super) async fn grace_for_first_bytes(&self) {
        if self.is_idle() && self.deadline().is_none() {
            sleep(FIRST_BYTES_GRACE).await;
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }
}
