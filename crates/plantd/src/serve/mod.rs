//! `plantd serve`: the server, from its start to its end.

mod certificate;
pub(crate) mod first_run;
mod listen;
mod metrics;
mod monitoring;
mod server_address;
mod service_manager;
mod stop_signal;
mod tokens;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use clap::builder::BoolishValueParser;
use indicatif::HumanCount;
use plant_http::{
    CorsOrigin, DEFAULT_MAX_FOLLOWERS, ListeningSocket, MONITORING_CONNECTIONS, PlantService,
    ServeError, ServerConfig,
};
use plant_postgres::PostgresRepository;
use plant_store::{
    DEFAULT_CACHE_MIB, DEFAULT_KEEP_EVENTS, EventRetention, OpenError, PlantRepository, SledConfig,
    SledRepository,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::certificate::Certificate;
use self::listen::{ListenAddress, ListenOptions, cannot_listen};
use self::monitoring::Monitoring;
use self::server_address::ServerAddress;
use self::service_manager::{READY, STOPPING, notify};
use self::stop_signal::StopSignal;
use crate::exit::Stop;
use crate::files::data_folder::{DataOptions, make_folder, plants_folder};
use crate::files::json_file::JsonFile as _;
use crate::files::tokens_file::TokensFile;
use crate::log_line::LogFormat;
use crate::option_value::{duration, whole_number};
use crate::store::postgres::{self, PostgresServeOptions};
use crate::webhooks::Webhooks;
use crate::webhooks::file::{WebhooksFile, webhooks_path};
use crate::webhooks::store::Store;

/// How many descriptors are reserved for files, threads and standard streams. Each table is an open file, and there are sixty
/// when merges lag so far behind that every write waits.
const OTHER_DESCRIPTORS: u64 = 128;

/// The most connections, regardless of the descriptor limit. Bounds their memory.
const MAX_CONNECTIONS: u32 = 32_768;

/// The largest cache, in MiB: more than any machine has.
const CACHE_MAX_MIB: u64 = 1_048_576;

/// The headings of options in the help.
const NETWORK: &str = "Network";
const DATA: &str = "Data";
const ARCHIVE: &str = "Archive";
const EVENTS: &str = "Events";
const LIMITS: &str = "Limits";
const SHUTDOWN: &str = "Shutdown";
const LOG: &str = "Log";

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    #[command(flatten, next_help_heading = NETWORK)]
    pub(crate) listen: ListenOptions,

    #[command(flatten, next_help_heading = DATA)]
    data: DataOptions,

    #[command(flatten, next_help_heading = "PostgreSQL")]
    postgres: PostgresServeOptions,

    /// About how much memory the caches of the tables of plants take, in MiB
    #[arg(long, help_heading = DATA, value_name = "N", env = "PLANTD_CACHE_MB")]
    #[arg(default_value_t = DEFAULT_CACHE_MIB, value_parser = whole_number(1..=CACHE_MAX_MIB))]
    #[arg(allow_hyphen_values = true)]
    cache_mb: u64,

    /// How many of the newest events to keep
    #[arg(long, help_heading = EVENTS, value_name = "N", env = "PLANTD_KEEP_EVENTS")]
    #[arg(default_value_t = DEFAULT_KEEP_EVENTS, value_parser = whole_number(0..=u64::MAX))]
    #[arg(allow_hyphen_values = true)]
    keep_events: u64,

    /// How long to keep every event, but at most 10,000,000 events
    #[arg(long, help_heading = EVENTS, value_name = "DURATION", env = "PLANTD_KEEP_EVENTS_FOR")]
    #[arg(default_value = "1h", value_parser = duration, allow_hyphen_values = true)]
    keep_events_for: Duration,

    /// The folder to which plantd copies the write-ahead log, at the latest a second after a change, for
    /// plantd restore --archive; made if it is missing [default: nowhere]
    #[arg(long, help_heading = ARCHIVE, value_name = "DIR", env = "PLANTD_ARCHIVE")]
    archive: Option<PathBuf>,

    /// Answer 503 to /readyz while the archive takes no changes
    #[arg(long, help_heading = ARCHIVE, env = "PLANTD_ARCHIVE_REQUIRED")]
    #[arg(value_parser = BoolishValueParser::new())]
    archive_required: bool,

    /// How many clients may follow events at once
    #[arg(long, help_heading = LIMITS, value_name = "N", env = "PLANTD_MAX_FOLLOWERS")]
    #[arg(allow_hyphen_values = true)]
    #[arg(default_value_t = DEFAULT_MAX_FOLLOWERS, value_parser = whole_number(0..=MAX_CONNECTIONS))]
    max_followers: u32,

    /// The file with the webhooks and their secrets [default: DIR/webhooks.json]
    #[arg(long, help_heading = DATA, value_name = "FILE", env = "PLANTD_WEBHOOKS")]
    webhooks: Option<PathBuf>,

    /// After SIGTERM, how long new connections are still accepted while /readyz answers 503
    #[arg(long, help_heading = SHUTDOWN, value_name = "DURATION", env = "PLANTD_DRAIN_DELAY")]
    #[arg(default_value = "1s", value_parser = duration, allow_hyphen_values = true)]
    drain_delay: Duration,

    /// After the drain delay, how long requests in flight may take
    #[arg(long, help_heading = SHUTDOWN, value_name = "DURATION", env = "PLANTD_DRAIN_TIMEOUT")]
    #[arg(default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    drain_timeout: Duration,

    /// How many requests a second each token may make [default: no limit]
    #[arg(long, help_heading = LIMITS, value_name = "N", env = "PLANTD_RATE_LIMIT")]
    #[arg(allow_hyphen_values = true)]
    #[arg(value_parser = whole_number(NonZeroU32::MIN..=NonZeroU32::MAX))]
    rate_limit: Option<NonZeroU32>,

    /// Where to serve /metrics, /livez and /readyz without a token, for a scraper on a private network;
    /// unix:PATH is a Unix socket [default: nowhere; at --listen, /metrics needs a token]
    #[arg(long, help_heading = NETWORK, value_name = "ADDR:PORT", env = "PLANTD_METRICS_LISTEN")]
    metrics_listen: Option<ListenAddress>,

    /// The format of the log: text for people, or a JSON object on each line
    #[arg(long, help_heading = LOG, value_name = "text|json", env = "PLANTD_LOG_FORMAT")]
    #[arg(default_value = "text", value_enum, hide_possible_values = true)]
    pub(crate) log_format: LogFormat,

    /// The origin (scheme, host and port) of a web page that may use this server from a browser; may be
    /// repeated, or separated by commas [default: none]
    #[arg(long, help_heading = NETWORK, value_name = "ORIGIN", env = "PLANTD_CORS_ORIGIN")]
    #[arg(value_delimiter = ',')]
    cors_origin: Vec<CorsOrigin>,
}

/// Serves until a signal arrives, or until the store or the socket fails.
pub(crate) fn run(options: &ServeOptions) -> Result<(), Stop> {
    // The passed socket is taken first: before there are threads, and before another file can get its descriptor.
    let passed_socket = options.listen.passed_socket().map_err(Stop::Configuration)?;
    let stop_signal = StopSignal::while_starting()?;
    let max_connections = max_connections(options.metrics_listen.is_some())?;
    let environment_token = tokens::environment_token().map_err(Stop::Configuration)?;
    let data = &options.data.folder;
    let tokens_path = options.data.tokens_path();
    let webhooks_path = webhooks_path(options.webhooks.as_deref(), data);
    // A broken file ends the start here, before the store is opened, which may take long.
    TokensFile::read(&tokens_path).map_err(Stop::of_file)?;
    WebhooksFile::read(&webhooks_path).map_err(Stop::of_file)?;
    let certificate = options.listen.certificate()?;

    let (store, plants) = open(options)?;
    let repository = Arc::clone(&store.repository);
    let listening = options.listen.listen(passed_socket, certificate.as_ref());
    let (socket, address) = listening?;
    let metrics = options.metrics_listen.as_ref().map(listen_for_metrics).transpose()?;
    let (metrics_socket, metrics_address) = metrics.unzip();
    let expires = certificate.as_ref().map(|certificate| certificate.expires.clone());
    certificate.map_or(Ok(()), Certificate::follow)?;

    let mut advice_to_show = None;
    // Opening the store may have taken long, and a token may have been created in the meantime.
    let is_first_start = TokensFile::read_bytes(&tokens_path).map_err(Stop::of_file)?.is_none();
    if is_first_start && environment_token.is_none() {
        let advice = first_run::advice(data, &address)?;
        advice_to_show = first_run::make_token(data, &tokens_path)?.then_some(advice);
    }
    let tokens = tokens::in_force(tokens_path, environment_token, options.rate_limit)?;

    let service = PlantService::new(Arc::clone(&repository), tokens)
        .with_cors_origins(options.cors_origin.clone())
        .with_max_followers(options.max_followers);
    metrics::register(service.registry(), expires)?;
    let webhooks = Webhooks::start(webhooks_path, store, service.registry())?;
    let service = service.with_webhooks(Arc::clone(&webhooks.statuses));
    let mut config = ServerConfig::default();
    config.max_connections = max_connections;
    config.drain_delay = options.drain_delay;
    config.drain_timeout = options.drain_timeout;
    actix_web::rt::System::new().block_on(async {
        // From here on, a signal drains the server instead of ending the start, as the ready line promises.
        let stop = stop_signal.once_ready();
        let stop = async {
            stop.await;
            notify(STOPPING);
        };
        log_start(repository, &plants, &address, metrics_address.as_ref()).await;
        if let Some(advice) = advice_to_show {
            log::info!("first start: {advice}");
        }
        let monitoring = metrics_socket.map(|socket| Monitoring::start(socket, service.clone()));
        address.say_ready()?;
        notify(READY);
        let served = plant_http::serve(socket, service, config, stop).await;
        webhooks.end();
        if let Some(monitoring) = monitoring {
            monitoring.end().await;
        }
        served.map_err(|error| match error {
            ServeError::ConnectionsCutOff(_) => Stop::CutOff(anyhow!(
                "{error}; where requests need longer than {}, raise --drain-timeout (PLANTD_DRAIN_TIMEOUT)",
                humantime::format_duration(config.drain_timeout)
            )),
            ServeError::ThreadsCutOff => Stop::CutOff(error.into()),
            _ => Stop::Io(
                anyhow::Error::from(error)
                    .context(format!("stopped serving the plants in {plants}")),
            ),
        })
    })
}

/// Logs in one line what is served, and where.
async fn log_start(
    repository: Arc<dyn PlantRepository>,
    plants: &str,
    address: &ServerAddress,
    metrics: Option<&ServerAddress>,
) {
    let count = match repository.count(None).await {
        Ok(1) => "1 plant".to_owned(),
        Ok(count) => format!("{} plants", HumanCount(count)),
        // PostgreSQL may be away again; the log and the metrics show that.
        Err(_) => "the plants".to_owned(),
    };
    let metrics = metrics.map(|address| format!(", metrics at {}", address.described()));
    log::info!(
        "plantd {} serves {count} in {plants} at {}{}",
        env!("CARGO_PKG_VERSION"),
        address.described(),
        metrics.unwrap_or_default()
    );
}

fn listen_for_metrics(address: &ListenAddress) -> anyhow::Result<(ListeningSocket, ServerAddress)> {
    address.listen().map_err(|cause| cannot_listen(address, &cause, "--metrics-listen"))
}

/// Raises the limit of open files to its maximum, and returns how many connections that allows.
fn max_connections(has_metrics_listener: bool) -> anyhow::Result<NonZeroU32> {
    let Rlimit { current: before, maximum } = getrlimit(Resource::Nofile);
    if before != maximum
        && let Err(cause) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        log::warn!("cannot raise the limit of open files: {cause}; fewer connections are accepted");
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let of_metrics = if has_metrics_listener { MONITORING_CONNECTIONS.get() } else { 0 };
    let others = OTHER_DESCRIPTORS + u64::from(of_metrics);
    let connections = limit.saturating_sub(others).min(MAX_CONNECTIONS.into());
    let connections = u32::try_from(connections).ok().and_then(NonZeroU32::new);
    connections.with_context(|| {
        format!(
            "this process may open {limit} files and needs more than {others}; raise the \
             limit (ulimit -n, or LimitNOFILE= of systemd)"
        )
    })
}

/// Opens the store. The returned text names its location, for messages.
fn open(options: &ServeOptions) -> Result<(Store, String), Stop> {
    let data = &options.data.folder;
    let retention = EventRetention::new(options.keep_events, options.keep_events_for);
    if options.archive_required && options.archive.is_none() {
        return Err(Stop::Configuration(anyhow!(
            "there is no archive that could be required; name one with --archive (PLANTD_ARCHIVE)"
        )));
    }
    if let Some(mut config) = options.postgres.config()? {
        config.retention = retention;
        if options.archive.is_some() {
            return Err(Stop::Configuration(anyhow!(
                "--archive (PLANTD_ARCHIVE) is for plants in a data folder; PostgreSQL archives its write-ahead log \
                 itself (archive_mode), or with pgBackRest"
            )));
        }
        if config.url.can_be_overheard() {
            log::warn!(
                "the connection to {} may not be encrypted, so others on the network can read the password: put \
                 sslmode=verify-full into the URL",
                config.url
            );
        }
        let opening = PostgresRepository::open(&config);
        let repository = postgres::block_on(opening)?;
        // The tokens file is in the data folder, although the plants are not.
        make_folder(data)?;
        return Ok((Store::new(repository), config.url.to_string()));
    }
    let mut config = SledConfig::new(plants_folder(data));
    config.cache_mib = options.cache_mb;
    config.retention = retention;
    config.archive.clone_from(&options.archive);
    config.archive_required = options.archive_required;
    let repository = SledRepository::open(&config);
    let repository = repository.map_err(|error| Stop::Io(advise_verification(error, data)))?;
    let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
    Ok((Store::new(repository), data.display().to_string()))
}

fn advise_verification(error: OpenError, data: &Path) -> anyhow::Error {
    let is_damaged = matches!(error, OpenError::Damaged(_));
    let error = anyhow::Error::from(error);
    if !is_damaged {
        return error;
    }
    let data = shlex::try_quote(&data.to_string_lossy())
        .map_or_else(|_| "DIR".into(), |data| data.into_owned());
    error.context(format!(
        "`plantd verify --data {data}` lists what is wrong, `plantd export --data {data} FILE` saves what \
         can be read"
    ))
}
