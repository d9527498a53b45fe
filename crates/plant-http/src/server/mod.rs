//! The service on a socket, from the first connection to the drain.

pub(crate) mod drain;
pub(crate) mod http1;
pub(crate) mod listener;
pub(crate) mod listening_socket;
pub(crate) mod tls;
pub(crate) mod transport;
mod workers;

use std::future::ready;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_http::{HttpService, Request};
use actix_service::{
    IntoServiceFactory as _, Service as _, ServiceFactory, ServiceFactoryExt as _,
    apply_fn_factory, fn_service, map_config,
};
use actix_web::App;
use actix_web::dev::AppConfig;
use actix_web::web::Data;
use anyhow::Context as _;
use futures_util::FutureExt as _;
use plant_store::PlantRepository;
use tokio::time::timeout;

use crate::access::cors::{Cors, CorsOrigin};
use crate::access::gate::Gate;
use crate::access::tokens::Tokens;
use crate::exchange::ExchangePolicy;
use crate::routes;
use crate::server::drain::Draining;
use crate::server::http1::connection::{
    Connection, DISCONNECT_DEADLINE, HEAD_DEADLINE, KEEP_ALIVE,
};
use crate::server::http1::pipeline::Pipeline;
use crate::server::listener::Listener;
use crate::server::listening_socket::ListeningSocket;
use crate::server::tls::TlsCertificate;
use crate::server::transport::{Incoming, Transport, Wire};
use crate::server::workers::Workers;

/// What to do about a store that failed, for the one who runs it.
const STORE_FAILED: &str =
    "the store failed; make sure that its disk works and has room, then start again";

/// What is served; [`serve`] shows how.
pub struct PlantService {
    /// Where the plants are.
    pub repository: Arc<dyn PlantRepository>,
    /// Who may do what.
    pub tokens: Tokens,
    /// The web pages of other origins that may talk to the service from a browser.
    pub cors_origins: Vec<CorsOrigin>,
    /// How many connections there are at most. Others wait until there are less. Each takes a descriptor.
    pub max_connections: NonZeroU32,
}

/// How the server ends.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// How long new connections are still taken, while `/readyz` answers 503 already, so that whoever
    /// spreads the requests can notice.
    pub delay: Duration,
    /// How long requests in flight may take after that. Imports end some seconds before, so that they can tell how far
    /// they came.
    pub timeout: Duration,
}

/// Serves until `stop` is there, then drains and closes the repository. It must run in an actix
/// system.
///
/// When it returns nothing here holds the repository any more, so that the store can be opened again.
/// It is otherwise where the drain timed out: what was cut off ends as soon as it can, and is not waited for
/// any longer.
///
/// # Errors
///
/// When the sockets fail, or when the repository fails, while serving or while it is closed. It drains
/// before it returns. [`DrainTimedOut`](crate::DrainTimedOut) when that is all that went wrong.
///
/// # Examples
///
/// A whole server on a Unix socket, and its only client. A [`TcpListener`](std::net::TcpListener) in the place
/// of the [`UnixListener`](std::os::unix::net::UnixListener) makes it one for the network, and any [`PlantRepository`] may be
/// in the place of this one.
///
/// ```
/// use std::io::{self, Read as _, Write as _};
/// use std::num::NonZeroU32;
/// use std::os::unix::net::{UnixListener, UnixStream};
/// use std::sync::Arc;
/// use std::thread;
/// use std::time::Duration;
///
/// use plant_http::{Drain, PlantService, Scope, Token, TokenName, TokenRecord, Tokens, serve};
/// use plant_store::{SledConfig, SledRepository};
/// use tokio::sync::oneshot;
///
/// # fn main() -> anyhow::Result<()> {
/// let folder = tempfile::tempdir()?;
/// let token = Token::random()?;
/// let record = TokenRecord::new(TokenName::new("reader")?, Scope::Read, &token);
/// let service = PlantService {
///     repository: Arc::new(SledRepository::open(&SledConfig::new(folder.path().join("plants")))?),
///     tokens: Tokens::new(vec![record]),
///     cors_origins: Vec::new(),
///     max_connections: NonZeroU32::new(100).expect("not 0"),
/// };
/// let path = folder.path().join("socket");
/// let socket = UnixListener::bind(&path)?;
///
/// let (stop, stopped) = oneshot::channel::<()>();
/// let client = thread::spawn(move || -> io::Result<String> {
///     let mut connection = UnixStream::connect(path)?;
///     let token = token.reveal();
///     write!(connection, "GET /plants HTTP/1.1\r\nHost: plants\r\nConnection: close\r\n")?;
///     write!(connection, "Authorization: Bearer {token}\r\n\r\n")?;
///     let mut answer = String::new();
///     connection.read_to_string(&mut answer)?;
///     drop(stop);
///     Ok(answer)
/// });
///
/// let drain = Drain { delay: Duration::ZERO, timeout: Duration::from_secs(10) };
/// actix_web::rt::System::new().block_on(serve(socket, service, drain, async {
///     // It ends when the client is done, or has failed.
///     let _ = stopped.await;
/// }))?;
/// let answer = client.join().expect("the client does not panic")?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
/// assert!(answer.ends_with("\r\n\r\n[]"));
/// # Ok(())
/// # }
/// ```
pub async fn serve(
    socket: impl Into<ListeningSocket>,
    service: PlantService,
    drain: Drain,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let ListeningSocket { acceptor, guard, tls } = socket.into();
    let PlantService { repository, tokens, cors_origins, max_connections } = service;
    let draining = Arc::new(Draining::default());
    let policy = Arc::new(ExchangePolicy {
        gate: Gate::new(tokens, routes::open_paths()),
        cors: Cors::new(cors_origins),
        draining: Arc::clone(&draining),
    });
    let workers = Workers::start({
        let (repository, draining) = (Arc::clone(&repository), Arc::clone(&draining));
        move || connection_service(&repository, &policy, &draining, tls.clone())
    })
    .await?;
    let listener = Listener::new(acceptor, guard, workers, max_connections);
    let mut listener = listener.context("cannot take connections")?;

    let failure = tokio::select! {
        never = listener.take_connections() => match never {},
        () = stop => None,
        failure = repository.failed() => Some(failure),
    };

    draining.begin();
    log::info!("draining");
    // It does not come to an end before.
    let _ = timeout(drain.delay, listener.take_connections()).await;
    let drained = listener.drain(&draining, drain.timeout).await;
    failure.map_or(Ok(()), Err).context(STORE_FAILED)?;
    repository.close().await.context(STORE_FAILED)?;
    log::info!("closed");
    drained
}

/// What serves connections, one such thing on each thread.
fn connection_service(
    repository: &Arc<dyn PlantRepository>,
    policy: &Arc<ExchangePolicy>,
    draining: &Arc<Draining>,
    tls: Option<TlsCertificate>,
) -> impl ServiceFactory<Incoming, Config = (), Response = (), Error = DispatchError> + use<> {
    let app = App::new()
        .app_data(Data::from(Arc::clone(repository)))
        .app_data(Data::from(Arc::clone(draining)))
        .configure(routes::configure);
    let app = map_config(app.into_factory(), |_| AppConfig::default());
    let policy_of_answers = Arc::clone(policy);
    let answered = apply_fn_factory(app, move |request: Request, app| {
        let exchange = policy_of_answers.begin(&request);
        let answering = policy_of_answers.check(&request).map(|()| app.call(request));
        exchange.answer(answering).map(Ok::<_, actix_web::Error>)
    });
    let policy = Arc::clone(policy);
    let expect = fn_service(move |request| ready(policy.before_continue(request)));
    let answered = HttpService::build()
        .client_request_timeout(HEAD_DEADLINE)
        .client_disconnect_timeout(DISCONNECT_DEADLINE)
        .keep_alive(KEEP_ALIVE)
        .expect(expect)
        .on_connect_ext(|pipeline: &Pipeline<Connection>, data| {
            data.insert(Rc::clone(pipeline.connection()));
        })
        .h1(answered);
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
            let wire = Wire::new(incoming)?;
            let transport = match tls {
                None => Transport::Plain(wire),
                // Plain connections have no room for it.
                Some(certificate) => Box::pin(certificate.shake_hands(wire, draining.closed()))
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
