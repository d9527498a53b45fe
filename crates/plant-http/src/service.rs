//! The service as an actix-web scope, to mount in your application or to serve alone.

use std::rc::Rc;
use std::sync::Arc;

use actix_service::{IntoServiceFactory as _, fn_service, map_config};
use actix_web::App;
use actix_web::dev::{self, AppConfig};
use actix_web::web::{self, Data, ServiceConfig};
use plant_store::PlantRepository;
use prometheus::Registry;

use crate::access::cors::CorsOrigin;
use crate::access::gate::Gate;
use crate::access::tokens::Tokens;
use crate::answers::AnswerMemory;
use crate::handlers::events::followers::{DEFAULT_MAX_FOLLOWERS, Followers};
use crate::handlers::webhooks::WebhookStatuses;
use crate::metrics::Metrics;
use crate::middleware::policy::Policy;
use crate::middleware::{answer, before_continue};
use crate::routes::Routes;
use crate::serve_error::ServeError;
use crate::server::drain::Draining;
use crate::server::http1::{HttpServiceFactory, http_service};
use crate::server::listening_socket::ListeningSocket;
use crate::server::{Server, ServerConfig};

/// Plants over HTTP: a repository, and the tokens that give access to it.
///
/// [`Self::scope`] mounts it in an actix-web application, [`serve`] runs a server for it. Clones share one repository.
#[derive(Clone)]
pub struct PlantService {
    repository: Arc<dyn PlantRepository>,
    tokens: Tokens,
    cors_origins: Vec<CorsOrigin>,
    draining: Arc<Draining>,
    followers: Arc<Followers>,
    webhooks: WebhookStatuses,
    answer_memory: Arc<AnswerMemory>,
    metrics: Metrics,
}

impl PlantService {
    /// The plants of this repository, for clients that have one of these tokens.
    #[must_use]
    pub fn new(repository: Arc<dyn PlantRepository>, tokens: Tokens) -> Self {
        let followers = Arc::new(Followers::new(DEFAULT_MAX_FOLLOWERS));
        Self {
            repository,
            tokens,
            cors_origins: Vec::new(),
            draining: Arc::default(),
            followers,
            webhooks: Arc::new(Vec::new),
            answer_memory: Arc::default(),
            metrics: Metrics::default(),
        }
    }

    /// The same service for at most this many clients that follow events at once, [`DEFAULT_MAX_FOLLOWERS`] by default.
    /// Each of them holds a connection.
    #[must_use]
    pub fn with_max_followers(self, max_followers: u32) -> Self {
        Self { followers: Arc::new(Followers::new(max_followers)), ..self }
    }

    /// The same service, open to web pages of these origins.
    #[must_use]
    pub fn with_cors_origins(self, cors_origins: Vec<CorsOrigin>) -> Self {
        Self { cors_origins, ..self }
    }

    /// The same service, which shows these webhooks at `GET /webhooks` to tokens with the scope `write`. Each request calls
    /// the function, which must not block.
    #[must_use]
    pub fn with_webhooks(self, webhooks: WebhookStatuses) -> Self {
        Self { webhooks, ..self }
    }

    /// The registry (of the crate prometheus 0.14) that `GET /metrics` shows, for the metrics of your program. Its names must
    /// not begin with `plantd_`: those are of the service and its repository.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.metrics.registry
    }

    /// The service below a path of an actix-web application, such as `/garden`. Everything below that path needs a
    /// token, except for the health checks, the documentation and the page for people. That page is at `/garden/`, and
    /// `/garden` leads to it. The path may have parameters, and a slash at its end makes no difference. Nothing can be added
    /// below it, so nothing there is outside of the gate.
    ///
    /// A server other than [`serve`]'s has its own limits and deadlines for heads, and sends `100 Continue` for a
    /// request with `Expect: 100-continue` before its token is checked.
    pub fn scope(&self, path: &str) -> impl dev::HttpServiceFactory + use<> {
        let policy = self.policy(Routes::All);
        web::scope(path.trim_end_matches('/'))
            .configure(|config| self.configure(config))
            .default_service(fn_service(move |request| answer(Rc::clone(&policy), request)))
    }

    /// Adds what handlers take.
    fn configure(&self, config: &mut ServiceConfig) {
        config
            // Requests count references to the outer pointer, which belongs to one thread.
            .app_data(Data::new(Arc::clone(&self.repository)))
            .app_data(Data::from(Arc::clone(&self.draining)))
            .app_data(Data::from(Arc::clone(&self.followers)))
            .app_data(Data::new(Arc::clone(&self.webhooks)))
            .app_data(Data::from(Arc::clone(&self.answer_memory)))
            .app_data(Data::new(self.metrics.clone()));
    }

    /// The rules, for the requests of one thread. Each request counts references to them, and threads that count in the
    /// same memory slow each other.
    pub(crate) fn policy(&self, routes: Routes) -> Rc<Policy> {
        let metrics = self.metrics.of_thread();
        Rc::new(Policy {
            routes: routes.table(&metrics),
            metrics,
            gate: Gate { tokens: Rc::new(self.tokens.clone()) },
            cors_origins: self.cors_origins.clone(),
            draining: Arc::clone(&self.draining),
        })
    }

    /// Makes the HTTP service of a thread, with these routes.
    fn http_service(&self, routes: Routes) -> HttpServiceFactory {
        let service = self.clone();
        let policy = self.policy(routes);
        let expecting = Rc::clone(&policy);
        let app = App::new()
            .configure(|config| service.configure(config))
            .default_service(fn_service(move |request| answer(Rc::clone(&policy), request)));
        let app = map_config(app.into_factory(), |()| AppConfig::default());
        http_service(app, move |request| before_continue(&expecting, request))
    }
}

/// Serves until `stop` is ready, then drains and closes the repository. `serve` must run in an actix system.
///
/// When `serve` returns, it has released the repository, so that the store can be opened again. After a drain that
/// timed out, connections or threads that were cut off may hold the repository a little longer.
///
/// # Errors
///
/// When the sockets fail, when the repository fails while serving or closing, or when the drain times out.
///
/// # Examples
///
/// A [`UnixListener`](std::os::unix::net::UnixListener) instead of the [`TcpListener`](std::net::TcpListener) makes a
/// server on a Unix socket. The folder `examples` of the source repository has a complete program.
///
/// ```no_run
/// use std::net::TcpListener;
///
/// use plant_http::{PlantService, ServerConfig, serve};
///
/// # async fn run(service: PlantService) -> Result<(), Box<dyn std::error::Error>> {
/// let listener = TcpListener::bind("127.0.0.1:8080")?;
/// let stop = async {
///     let _ = tokio::signal::ctrl_c().await;
/// };
/// serve(listener, service, ServerConfig::default(), stop).await?;
/// # Ok(())
/// # }
/// ```
pub async fn serve(
    socket: impl Into<ListeningSocket>,
    service: PlantService,
    config: ServerConfig,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let repository = Arc::clone(&service.repository);
    let draining = Arc::clone(&service.draining);
    let make = move || service.http_service(Routes::All);
    let mut server = Server::start(socket.into(), make, Arc::clone(&draining), config).await?;
    let end = async {
        tokio::select! {
            () = stop => None,
            failure = repository.failed() => Some(failure),
        }
    };
    let failure = server.serve_until(end).await;
    draining.begin();
    log::info!("draining");
    let drained = server.drain().await;
    if let Some(failure) = failure {
        return Err(ServeError::Store(failure));
    }
    repository.close().await.map_err(ServeError::Store)?;
    log::info!("closed");
    drained
}

/// Serves `/metrics`, `/livez` and `/readyz` of a service without a token, until `stop` is ready: on a private address, for a
/// scraper. Run it beside [`serve`], and end it after that, so that the drain can be watched. The server holds the repository
/// as long as it runs, and must run in an actix system.
///
/// # Errors
///
/// When the socket fails, or when threads cannot be started.
pub async fn serve_monitoring(
    socket: impl Into<ListeningSocket>,
    service: PlantService,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let make = move || service.http_service(Routes::Monitoring);
    let config = ServerConfig::for_monitoring();
    let mut server = Server::start(socket.into(), make, Arc::default(), config).await?;
    server.serve_until(stop).await;
    match server.drain().await {
        // A scraper that sends nothing, or reads nothing, is of no account.
        Err(ServeError::ConnectionsCutOff(_)) => Ok(()),
        ended => ended,
    }
}
