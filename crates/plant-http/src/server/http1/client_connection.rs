//! The connection of a request, as the code that answers sees it.

use std::future::pending;
use std::rc::Rc;

use actix_http::{ConnectionType, Request, RequestHead, ResponseHead, Version};
use actix_web::HttpRequest;

use crate::access::last_token::LastToken;
use crate::server::http1::framing::BodyLength;
use crate::server::http1::state::ConnectionState;

/// The connection of a request. In an application with a server of its own, nothing is known about it.
#[derive(Clone, Default)]
pub(crate) struct ClientConnection(Option<Rc<ConnectionState>>);

impl ClientConnection {
    pub(super) fn new(state: Rc<ConnectionState>) -> Self {
        Self(Some(state))
    }

    /// The connection of a request that has reached the application.
    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.conn_data::<Self>().cloned().unwrap_or_default()
    }

    /// The connection of a request that has not reached the application yet.
    pub(crate) fn before_routing(request: &Request) -> Self {
        request.conn_data::<Self>().cloned().unwrap_or_default()
    }

    /// The last valid token of the connection.
    pub(crate) fn last_token(&self) -> Option<&LastToken> {
        self.0.as_ref().map(|state| &state.last_token)
    }

    /// The head of a request has arrived.
    pub(crate) fn begin_request(&self, head: &RequestHead) {
        if let Some(state) = &self.0 {
            let is_last = head.connection_type() != ConnectionType::KeepAlive;
            state.request_begins(BodyLength::of(head), is_last);
        }
    }

    /// The body of the request was read to its end.
    pub(crate) fn body_was_read(&self) {
        if let Some(state) = &self.0 {
            state.body_was_read();
        }
    }

    /// An answer begins. In the drain, the client should send its next request on another connection.
    pub(crate) fn begin_answer(&self, head: &mut ResponseHead, is_in_drain: bool) {
        let Some(state) = &self.0 else { return };
        // actix-http reuses heads and keeps their version, which determines the connection type.
        head.version = Version::HTTP_11;
        let is_last = head.connection_type() == ConnectionType::Close;
        if state.answer_begins(is_last, is_in_drain) {
            head.set_connection_type(ConnectionType::Close);
        }
    }

    /// The answer has ended, or the client has disconnected.
    pub(crate) fn end_answer(&self) {
        if let Some(state) = &self.0 {
            state.answer_ends();
        }
    }

    /// Waits until the client has closed its side of the connection. In an application with a server of its own, this waits
    /// forever.
    ///
    /// A half-closed connection counts as left: otherwise the place of a client that is gone would be taken until the next
    /// write fails. A connection with more bytes behind the request than the server reads ahead counts as left too, because
    /// the end of those bytes would not be noticed.
    pub(crate) async fn left(&self) {
        match &self.0 {
            Some(state) => state.client_left().await,
            None => pending().await,
        }
    }

    /// Whether the server ends the connection because the client has read nothing for too long.
    pub(crate) fn has_stalled(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.has_stalled())
    }
}

#[cfg(test)]
impl ClientConnection {
    /// A connection of which nothing has been read.
    pub(crate) fn idle() -> Self {
        Self::new(Rc::default())
    }

    /// Whether the client has a deadline for its next bytes.
    pub(crate) fn has_deadline(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.deadline().is_some())
    }
}
