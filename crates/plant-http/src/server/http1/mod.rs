//! The guards around actix-http's HTTP/1 codec, and what HTTP needs beneath actix-web.
//!
//! Each guard works around a defect of actix-http 3.x, or does something that actix-web has no hook for. To
//! see a defect, remove its guard and run the test. Delete a guard when the test passes without it.
//!
//! | defect | guard | test that shows it |
//! |---|---|---|
//! | The codec encodes an answer with the version, the connection type and the HEAD flag of the request that it decoded *last*, so pipelined requests get wrong framing. A broken chunk ends the connection before earlier answers are written. | `state.rs` (`turn`): one request at a time | `smuggling` (`direct.rs`), `connections` |
//! | Limits of heads are checked between two reads, so they depend on how bytes arrive. A head over a limit is answered by closing a socket with unread bytes, which resets the connection and loses the answer. | `request_end.rs` finds the end of heads and chunks; `connection.rs` (`finish`) answers, and discards the rest | `smuggling` (`limits.rs`) |
//! | The timer for slow heads covers only the first request of a connection. | `ending.rs` (`poll_overdue`): a deadline for each head | `connections` |
//! | A client that reads nothing of an answer holds the connection forever. | `../transport.rs`: `TimedSocket` | `connections` |
//! | Input behind an answer that closes the connection is read and answered. | `state.rs` (`Closing`), `connection.rs` (`poll_request`) | `smuggling` |
//! | A head with `Upgrade: websocket` makes the codec take everything that follows for the body, and any text passes as `Host`. | `framing.rs` | `smuggling` (`cases.rs`) |
//! | A head with `Connection: upgrade` is answered with the same option, and the connection closed. | `upgrade_option.rs`: the option is made meaningless | `smuggling` (`cases.rs`) |
//! | The shutdown signal drops a request that has arrived and is not read yet. | `ending.rs` (`is_due`): an idle connection ends like one whose client has stopped sending | `drain`, `restart` |
//! | `Expect: 100-continue` is answered before any middleware of actix-web runs. | [`http_service`] asks `before_continue` | `smuggling` (`cases.rs`) |
//!
//! The last two rows are not defects; their guards stay.

mod client_connection;
mod connection;
mod ending;
mod framing;
mod reading;
pub(crate) mod request_end;
mod state;
mod upgrade_option;

use std::future::ready;
use std::net::SocketAddr;

use actix_http::body::BoxBody;
use actix_http::error::DispatchError;
use actix_http::{HttpService, Request, Response};
use actix_service::boxed::{self, BoxService, BoxServiceFactory};
use actix_service::{Service as _, ServiceFactory, fn_service};
use actix_web::Error;
use actix_web::dev::ServiceResponse;
use tokio_util::either::Either;

use crate::limits::ANSWER_PART_BYTES;
use crate::server::deadlines::{DISCONNECT_DEADLINE, HEAD_DEADLINE, KEEP_ALIVE};
use crate::server::drain::Draining;
use crate::server::listening_socket::Accepted;
use crate::server::tls::TlsCertificate;
use crate::server::transport::TimedSocket;

use self::connection::Connection;

pub(crate) use self::client_connection::ClientConnection;
pub(crate) use self::framing::refusal;

/// A connection and its client's address.
type Served = (Connection, Option<SocketAddr>);

/// Makes the service that answers the requests of a thread's connections.
pub(crate) type HttpServiceFactory = BoxServiceFactory<(), Served, (), DispatchError, ()>;

/// actix-http's service around an application. `before_continue` invites the body that a request announces with
/// `Expect: 100-continue`, or answers instead.
pub(crate) fn http_service<Application>(
    application: Application,
    before_continue: impl Fn(Request) -> Result<Request, Response<BoxBody>> + Clone + 'static,
) -> HttpServiceFactory
where
    Application: ServiceFactory<
            Request,
            Config = (),
            Response = ServiceResponse<BoxBody>,
            Error = Error,
            InitError = (),
        > + 'static,
{
    let service = HttpService::build()
        .client_request_timeout(HEAD_DEADLINE)
        .client_disconnect_timeout(DISCONNECT_DEADLINE)
        .keep_alive(KEEP_ALIVE)
        .h1_write_buffer_size(ANSWER_PART_BYTES)
        .expect(fn_service(move |request| ready(before_continue(request))))
        .on_connect_ext(|connection: &Connection, data| {
            data.insert(ClientConnection::new(connection.state()));
        })
        .h1(application);
    boxed::factory(service)
}

/// Serves a connection: the TLS handshake, then one request at a time.
pub(super) async fn serve_connection(
    http: &BoxService<Served, (), DispatchError>,
    accepted: Accepted,
    tls: Option<TlsCertificate>,
    draining: &Draining,
) -> Result<(), DispatchError> {
    let Accepted { socket, peer } = accepted;
    let socket = TimedSocket::new(socket)?;
    let transport = match tls {
        None => Either::Left(socket),
        // Boxed, so that plain connections do not reserve memory for the handshake.
        Some(certificate) => Box::pin(certificate.shake_hands(socket, draining.closed()))
            .await
            .map(Either::Right)
            // Port scanners would flood the log.
            .inspect_err(|cause| log::debug!("no TLS handshake with {peer:?}: {cause}"))?,
    };
    let connection = Connection::new(transport, draining.closed());
    let served = http.call((connection.clone(), peer)).await;
    connection.finish(&served).await;
    served
}
