//! The state of a connection's requests: the phase of the current one, and the position in the bytes. Together they decide
//! what actix-http may read. The middleware moves the phase on.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::access::last_token::LastToken;
use crate::server::deadlines::{DISCONNECT_DEADLINE, FIRST_BYTES_GRACE, HEAD_DEADLINE, KEEP_ALIVE};
use crate::server::http1::framing::BodyLength;
use crate::server::http1::reading::Reading;

/// Shared by the exchanges of a connection and the connection itself.
#[derive(Default)]
pub(super) struct ConnectionState {
    phase: Cell<Phase>,
    pub(super) reading: RefCell<Reading>,
    /// Whether bytes have arrived whose turn has not come. Behind a complete body, they belong to the next request.
    pub(super) has_ahead: Cell<bool>,
    /// The task that waits for a request to begin, or to be answered.
    pub(super) reader: Cell<Option<Waker>>,
    /// Whether the client has left the request that is being answered.
    has_left: Cell<bool>,
    /// Whether the client has read nothing for too long.
    has_stalled: Cell<bool>,
    /// Notified when the client leaves.
    leaves: Notify,
    pub(super) last_token: LastToken,
}

/// What to do when actix-http reads.
pub(super) enum Turn {
    /// Pass on bytes of the request.
    Take,
    /// Keep bytes that arrive for later.
    Wait,
    /// Report the end of input: earlier requests are answered, and the connection ends.
    End,
    /// Discard what still arrives, so that no reset destroys the closing answer, and report the end of input: at once if
    /// the whole request was read, else when the client has stopped sending its body.
    Discard { is_request_whole: bool },
}

/// A connection goes through the first three phases for each request.
#[derive(Clone, Copy)]
enum Phase {
    /// Nothing of the next request has arrived. Its first byte has this deadline; the first request of a connection has
    /// the one of actix-http.
    Idle { deadline: Option<Instant> },
    /// A head is arriving, with its deadline.
    Head { deadline: Option<Instant> },
    /// A request is being answered; its body and its answer have deadlines elsewhere.
    Exchange {
        has_unread_body: bool,
        /// Whether the connection closes with the answer.
        closes: bool,
    },
    /// A closing answer has ended. The connection ends by itself when the client has read the answer, or at the deadline.
    Closing { deadline: Instant },
}

impl Default for Phase {
    fn default() -> Self {
        Self::Idle { deadline: None }
    }
}

impl ConnectionState {
    /// A request begins. With `is_last`, it asks to close the connection.
    pub(super) fn request_begins(&self, body: BodyLength, is_last: bool) {
        let has_unread_body = body != BodyLength::Bytes(0);
        self.phase.set(Phase::Exchange { has_unread_body, closes: is_last });
        self.reading.borrow_mut().begin_body(body);
        self.has_left.set(false);
        self.wake_reader();
    }

    pub(super) fn body_was_read(&self) {
        if let Phase::Exchange { closes, .. } = self.phase.get() {
            self.phase.set(Phase::Exchange { has_unread_body: false, closes });
        }
    }

    /// An answer begins. Returns whether the connection closes with the answer: if the request or the answer says so, if
    /// the body was not read, or, in the drain, if no byte of another request has arrived.
    pub(super) fn answer_begins(&self, is_last: bool, drains: bool) -> bool {
        let Phase::Exchange { has_unread_body, closes } = self.phase.get() else { return is_last };
        let is_at_end = drains && !self.has_ahead.get();
        let closes = closes || is_last || is_at_end || has_unread_body;
        self.phase.set(Phase::Exchange { has_unread_body, closes });
        closes
    }

    pub(super) fn answer_ends(&self) {
        let now = Instant::now();
        self.phase.set(match self.phase.get() {
            Phase::Exchange { closes: true, .. } => {
                Phase::Closing { deadline: now + DISCONNECT_DEADLINE }
            }
            // An idle connection is closed by actix-http, but not while it cannot write the answer.
            _ => Phase::Idle { deadline: Some(now + KEEP_ALIVE + HEAD_DEADLINE) },
        });
        self.wake_reader();
    }

    fn wake_reader(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// The client has closed its side, or whether it has can no longer be noticed.
    pub(super) fn client_leaves(&self) {
        self.has_left.set(true);
        self.leaves.notify_one();
    }

    /// The client has read nothing for too long, so the connection ends.
    pub(super) fn client_stalls(&self) {
        self.has_stalled.set(true);
    }

    pub(super) fn has_stalled(&self) -> bool {
        self.has_stalled.get()
    }

    /// Waits until the client has left the request that is being answered.
    pub(super) async fn client_left(&self) {
        while !self.has_left.get() {
            self.leaves.notified().await;
        }
    }

    /// Bytes of a request have arrived, or their turn has come.
    pub(super) fn bytes_came(&self) {
        if let Phase::Idle { deadline } = self.phase.get() {
            // actix-http has a deadline for the first head, but for no later one.
            let deadline = deadline.map(|_| Instant::now() + HEAD_DEADLINE);
            self.phase.set(Phase::Head { deadline });
        }
    }

    /// Whether the connection waits for a request of which nothing has arrived.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase.get(), Phase::Idle { .. })
    }

    pub(super) fn turn(&self) -> Turn {
        let mut reading = self.reading.borrow_mut();
        match (&*reading, self.phase.get()) {
            (Reading::Head(..) | Reading::Bytes(_) | Reading::Chunks(_), _) => Turn::Take,
            (Reading::BrokenBody | Reading::LongHead(_), _) => Turn::End,
            (Reading::Endless, Phase::Closing { .. }) => Turn::Discard { is_request_whole: false },
            (Reading::Next, Phase::Closing { .. }) => Turn::Discard { is_request_whole: true },
            (Reading::Next, Phase::Idle { .. } | Phase::Head { .. }) => {
                *reading = Reading::default();
                Turn::Take
            }
            (Reading::BehindHead { .. } | Reading::Endless | Reading::Next, _) => Turn::Wait,
        }
    }

    /// How many of these bytes, from their beginning, actix-http may read now.
    pub(super) fn take(&self, bytes: &mut [u8]) -> usize {
        self.reading.borrow_mut().take(bytes)
    }

    /// Gives a client that has just connected time to send its first bytes.
    pub(super) async fn grace_for_first_bytes(&self) {
        if matches!(self.phase.get(), Phase::Idle { deadline: None }) {
            sleep(FIRST_BYTES_GRACE).await;
        }
    }

    /// The deadline for the client to send the next request, the rest of its head, or to close the connection.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase.get() {
            Phase::Idle { deadline } | Phase::Head { deadline } => deadline,
            Phase::Exchange { .. } => None,
            Phase::Closing { deadline } => Some(deadline),
        }
    }
}
