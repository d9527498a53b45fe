//! The guards around actix-http's HTTP/1 codec, and what HTTP needs beneath actix-web.
//!
//! Each guards against a defect of actix-http 3.x or does what actix-web has no place for. To see one, take its guard
//! out and run the test; a guard can go when the test passes without it.
//!
//! | what | guard | test that shows it |
//! |---|---|---|
//! | The codec encodes an answer with the version, the connection type and the HEAD flag of the request that it decoded *last*, so that pipelined requests get wrong framing. It also ends the connection at a broken chunk before earlier answers are written. | `pipeline.rs`: one request at a time | `smuggling` (`direct.rs`), `connections` |
//! | Limits of heads are checked between two reads, so that they depend on how bytes arrive; a head over a limit is answered by closing a socket with unread bytes, which resets it and loses the answer. | `request_end.rs` finds the end of heads and chunks; `pipeline.rs` (`Ending`) answers and reads on | `smuggling` (`limits.rs`) |
//! | The timer for slow heads covers only the first request of a connection. | `connection.rs`: a deadline for each head | `connections` |
//! | A client that takes nothing of an answer holds the connection for ever. | `../transport.rs`: `TimedSocket` | `connections` |
//! | Input behind an answer that closes the connection is read and answered. | `state.rs` (`is_closing`), `pipeline.rs` | `smuggling` |
//! | A head with `Upgrade: websocket` makes the codec take all that follows for the body, and any text passes as `Host`. | `framing.rs` | `smuggling` (`cases.rs`) |
//! | The signal to shut down drops a request that has come and is not read yet. | `connection.rs`: a connection at rest ends as if the client had ended its sending | `drain`, `restart` |
//! | `Expect: 100-continue` is answered before any middleware of actix-web runs. | [`Application::before_continue`] | `authentication` |
//!
//! The last two are no defects, and stay.

pub(crate) mod connection;
pub(crate) mod framing;
pub(crate) mod pipeline;
pub(crate) mod request_end;
pub(crate) mod state;

use std::future::ready;
use std::rc::Rc;
use std::sync::Arc;

use actix_http::body::BoxBody;
use actix_http::error::DispatchError;
use actix_http::{HttpService, Request, Response};
use actix_service::{
    Service as _, ServiceFactory, ServiceFactoryExt as _, apply_fn_factory, fn_service,
};
use actix_web::Error;
use actix_web::dev::ServiceResponse;

use crate::server::deadlines::{DISCONNECT_DEADLINE, HEAD_DEADLINE, KEEP_ALIVE};
use crate::server::drain::Draining;
use crate::server::tls::TlsCertificate;
use crate::server::transport::{Incoming, TimedSocket, Transport};

use self::connection::Connection;
use self::pipeline::Pipeline;

/// What answers the requests. Each thread makes an application of its own.
pub(crate) trait Application: Clone + Send + 'static {
    /// Makes the application of one thread.
    fn make(
        &self,
    ) -> impl ServiceFactory<
        Request,
        Config = (),
        Response = ServiceResponse<BoxBody>,
        Error = Error,
        InitError = (),
    > + use<Self>;

    /// Lets a client send the body that it announces by `Expect: 100-continue`, or answers instead.
    fn before_continue(&self, request: Request) -> Result<Request, Response<BoxBody>>;
}

/// Serves connections: TLS, then one request at a time.
pub(crate) fn connection_service<A: Application>(
    application: &A,
    draining: &Arc<Draining>,
    tls: Option<TlsCertificate>,
) -> impl ServiceFactory<Incoming, Config = (), Response = (), Error = DispatchError> + use<A> {
    let expecting = application.clone();
    let expect = fn_service(move |request| ready(expecting.before_continue(request)));
    let answered = HttpService::build()
        .client_request_timeout(HEAD_DEADLINE)
        .client_disconnect_timeout(DISCONNECT_DEADLINE)
        .keep_alive(KEEP_ALIVE)
        .expect(expect)
        .on_connect_ext(|pipeline: &Pipeline<Connection>, data| {
            data.insert(Rc::clone(pipeline.connection()));
        })
        .h1(application.make());
    let answered = apply_fn_factory(answered, |(pipeline, peer): (Pipeline<_>, _), answered| {
        let ending = pipeline.ending();
        let serving = answered.call((pipeline, peer));
        async move {
            let served = serving.await;
            ending.end(&served).await;
            served
        }
    });
    let draining = Arc::clone(draining);
    let connected = fn_service(move |incoming: Incoming| {
        let (tls, draining) = (tls.clone(), Arc::clone(&draining));
        async move {
            let peer = incoming.peer();
            let socket = TimedSocket::new(incoming)?;
            let transport = match tls {
                None => Transport::Plain(socket),
                // Plain connections have no room for it.
                Some(certificate) => Box::pin(certificate.shake_hands(socket, draining.closed()))
                    .await
                    // Port scanners would flood the log.
                    .inspect_err(|cause| log::debug!("no TLS handshake with {peer:?}: {cause}"))?,
            };
            let connection = Connection::new(transport, draining.closed());
            let state = connection.state();
            Ok::<_, DispatchError>((Pipeline::new(connection, state), peer))
        }
    });
    connected.and_then(answered)
}
