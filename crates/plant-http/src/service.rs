//! The service as an application of actix-web, to be mounted in one of yours or served whole.

use std::sync::Arc;

use actix_http::body::BoxBody;
use actix_http::{Request, Response};
use actix_service::{IntoServiceFactory as _, ServiceFactory, map_config};
use actix_web::dev::{AppConfig, ServiceRequest, ServiceResponse};
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{App, Error, Scope};
use plant_store::PlantRepository;

use crate::access::cors::{Cors, CorsOrigin};
use crate::access::gate::Gate;
use crate::access::tokens::Tokens;
use crate::middleware::{Middleware, Policy};
use crate::routes;
use crate::serve_error::ServeError;
use crate::server::drain::Draining;
use crate::server::http1::Application;
use crate::server::listening_socket::ListeningSocket;
use crate::server::{Server, ServerConfig};

/// Plants over HTTP: a repository, and who may do what with it.
///
/// [`Self::scope`] mounts it in an actix-web application of yours, [`serve`] runs a server of its own. A clone is the
/// same service.
#[derive(Clone)]
pub struct PlantService {
    repository: Arc<dyn PlantRepository>,
    tokens: Tokens,
    cors_origins: Vec<CorsOrigin>,
    draining: Arc<Draining>,
}

impl PlantService {
    /// The plants of this repository, for those who have one of these tokens.
    #[must_use]
    pub fn new(repository: Arc<dyn PlantRepository>, tokens: Tokens) -> Self {
        Self { repository, tokens, cors_origins: Vec::new(), draining: Arc::default() }
    }

    /// The same service, where web pages of these origins may use it from a browser.
    #[must_use]
    pub fn with_cors_origins(self, cors_origins: Vec<CorsOrigin>) -> Self {
        Self { cors_origins, ..self }
    }

    /// The service below a path of an application of yours, such as `/garden`. Everything below that path needs a
    /// token, except for the health checks and the documentation; the rest of the application is left alone. The path
    /// may have parameters, and a slash at its end makes no difference.
    ///
    /// In a server that is not [`serve`]'s, heads have that server's limits and deadlines, and a client that sends
    /// `Expect: 100-continue` is told to go on before its token is looked at.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use actix_web::{App, test};
    /// use plant_http::{PlantService, Tokens};
    /// use plant_store::MemoryRepository;
    ///
    /// # actix_web::rt::System::new().block_on(async {
    /// let plants = PlantService::new(Arc::new(MemoryRepository::default()), Tokens::default());
    /// let app = test::init_service(App::new().service(plants.scope("/garden"))).await;
    ///
    /// let ask = |path| test::TestRequest::with_uri(path).to_request();
    /// assert_eq!(test::call_service(&app, ask("/garden/livez")).await.status(), 200);
    /// assert_eq!(test::call_service(&app, ask("/garden/plants")).await.status(), 401);
    /// assert_eq!(test::call_service(&app, ask("/elsewhere")).await.status(), 404);
    /// # });
    /// ```
    pub fn scope(
        &self,
        path: &str,
    ) -> Scope<
        impl ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse<BoxBody>,
            Error = Error,
            InitError = (),
        > + use<>,
    > {
        web::scope(path.trim_end_matches('/'))
            .configure(|config| self.configure(config))
            .wrap(Middleware::new(self.policy()))
    }

    fn configure(&self, config: &mut ServiceConfig) {
        config
            .app_data(Data::from(Arc::clone(&self.repository)))
            .app_data(Data::from(Arc::clone(&self.draining)))
            .configure(routes::configure);
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::new(Policy {
            gate: Gate::new(self.tokens.clone(), routes::open_paths()),
            cors: Cors::new(self.cors_origins.clone()),
            draining: Arc::clone(&self.draining),
        })
    }
}

/// The service as the whole of what a server answers.
#[derive(Clone)]
struct WholeService {
    service: PlantService,
    policy: Arc<Policy>,
}

impl Application for WholeService {
    fn make(
        &self,
    ) -> impl ServiceFactory<
        Request,
        Config = (),
        Response = ServiceResponse<BoxBody>,
        Error = Error,
        InitError = (),
    > + use<> {
        let app = App::new()
            .configure(|config| self.service.configure(config))
            .wrap(Middleware::new(Arc::clone(&self.policy)));
        map_config(app.into_factory(), |()| AppConfig::default())
    }

    fn before_continue(&self, request: Request) -> Result<Request, Response<BoxBody>> {
        self.policy.before_continue(request)
    }
}

/// Serves until `stop` is there, then drains and closes the repository. It must run in an actix system.
///
/// When it returns, nothing here holds the repository any more, so that the store can be opened again. Where the drain
/// timed out that is not so: what was cut off ends as soon as it can, and is not waited for any longer.
///
/// # Errors
///
/// When the sockets fail, or when the repository fails, while serving or while it is closed. It drains before it
/// returns. When the drain times out, and that is all that went wrong.
///
/// # Examples
///
/// A whole server on a Unix socket, and its only client. A [`TcpListener`](std::net::TcpListener) in the place of the
/// [`UnixListener`](std::os::unix::net::UnixListener) makes it one for the network.
///
/// ```
/// use std::io::{self, Read as _, Write as _};
/// use std::os::unix::net::{UnixListener, UnixStream};
/// use std::sync::Arc;
/// use std::thread;
///
/// use plant_http::{
///     PlantService, Scope, ServerConfig, Token, TokenName, TokenRecord, Tokens, serve,
/// };
/// use plant_store::{SledConfig, SledRepository};
/// use tokio::sync::oneshot;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let token = Token::random()?;
/// let record = TokenRecord::new(TokenName::new("reader")?, Scope::Read, &token);
/// let repository = SledRepository::open(&SledConfig::new(folder.path().join("plants")))?;
/// let service = PlantService::new(Arc::new(repository), Tokens::new(vec![record]));
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
/// let stop = async {
///     // It ends when the client is done, or has failed.
///     let _ = stopped.await;
/// };
/// let serving = serve(socket, service, ServerConfig::default(), stop);
/// actix_web::rt::System::new().block_on(serving)?;
/// let answer = client.join().expect("the client does not panic")?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
/// assert!(answer.ends_with("\r\n\r\n[]"));
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
    let whole = WholeService { policy: service.policy(), service };
    let mut server = Server::start(socket.into(), whole, draining, config).await?;
    let end = async {
        tokio::select! {
            () = stop => None,
            failure = repository.failed() => Some(failure),
        }
    };
    let failure = server.serve_until(end).await;
    let drained = server.drain().await;
    if let Some(failure) = failure {
        return Err(ServeError::Store(failure));
    }
    repository.close().await.map_err(ServeError::Store)?;
    log::info!("closed");
    drained
}
