//! Whether the client is still there.

use std::future::pending;
use std::rc::Rc;

use actix_web::HttpRequest;

use crate::errors::Failure;
use crate::extract::head::FromHead;
use crate::server::http1::state::ConnectionState;

/// The connection of the client, for answers that may wait for long.
pub(crate) struct ClientPresence(Option<Rc<ConnectionState>>);

impl ClientPresence {
    /// Waits until the client has closed its side of the connection. In an application with a server of its own, this waits
    /// forever.
    ///
    /// A half-closed connection counts as left: otherwise the place of a client that is gone would be taken until the next
    /// write fails. A connection with more bytes behind the request than the server reads ahead counts as left too, because
    /// the end of those bytes would not be noticed.
    pub(crate) async fn left(&self) {
        match &self.0 {
            Some(connection) => connection.client_left().await,
            None => pending().await,
        }
    }

    /// Whether the server ends the connection because the client has read nothing for too long.
    pub(crate) fn has_stalled(&self) -> bool {
        self.0.as_ref().is_some_and(|connection| connection.has_stalled())
    }
}

impl FromHead for ClientPresence {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        Ok(Self(request.conn_data::<Rc<ConnectionState>>().cloned()))
    }
}
