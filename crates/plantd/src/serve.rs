//! `plantd serve`.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use plant_http::{
    PlantService, Scope, ServeError, ServerConfig, Token, TokenName, TokenRecord, Tokens,
};
use plant_store::{
    Damaged, PlantRepository, PostgresConfig, PostgresRepository, SledConfig, SledRepository,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::certificate::Certificate;
use crate::cli::ServeOptions;
use crate::follow::follow;
use crate::stop_signal::StopSignal;
use crate::tokens_file::TokensFile;
use crate::{Stop, TOKEN_VARIABLE, first_run, make_folder, plants_folder, postgres};

/// How many descriptors are left for what is no connection: files, threads, standard streams.
const OTHER_DESCRIPTORS: u64 = 64;

/// How many connections are taken at the same time however many descriptors there are. It bounds their
/// memory.
const MAX_CONNECTIONS: u32 = 32_768;

pub(crate) fn run(options: &ServeOptions) -> Result<(), Stop> {
    // Before there are threads, and files that could be taken for the socket.
    let passed_socket = options.listen.passed_socket().map_err(Stop::Configuration)?;
    let stop_signal = StopSignal::while_starting().map_err(Stop::Io)?;
    let max_connections = max_connections().map_err(Stop::Io)?;
    let environment_token = environment_token().map_err(Stop::Configuration)?;
    let data = &options.folder.data;
    let tokens_path = options.folder.tokens_path();
    // Before the store is opened, which may take long.
    TokensFile::read(&tokens_path).map_err(Stop::of_file)?;
    let certificate = options.listen.certificate()?;

    let (repository, plants) = open(options)?;
    let listening = options.listen.listen(passed_socket, certificate.as_ref());
    let (socket, place) = listening.map_err(Stop::Io)?;
    certificate.map_or(Ok(()), Certificate::follow).map_err(Stop::Io)?;

    let mut command_to_show = None;
    // A token may have been made meanwhile.
    let is_first_start = TokensFile::load(&tokens_path).map_err(Stop::of_file)?.is_none();
    if is_first_start && environment_token.is_none() {
        let command = first_run::curl_command(data, &place).map_err(Stop::Io)?;
        command_to_show = Some(command);
        first_run::make_token(data, &tokens_path).map_err(Stop::Io)?;
    }
    let tokens = tokens_in_force(tokens_path, environment_token, options.rate_limit)?;

    let service =
        PlantService::new(repository, tokens).with_cors_origins(options.cors_origin.clone());
    let mut config = ServerConfig::default();
    config.max_connections = max_connections;
    config.drain_delay = options.drain_delay;
    config.drain_timeout = options.drain_timeout;
    actix_web::rt::System::new().block_on(async {
        // From here on a signal drains the server, so it may be said to be ready.
        let stop = stop_signal.once_ready();
        if let Some(command) = command_to_show {
            log::info!("first start: made a token; create a plant with\n\n{command}\n");
        }
        place.say_ready().map_err(Stop::Io)?;
        plant_http::serve(socket, service, config, stop).await.map_err(|error| match error {
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

/// The plants, and where they are, for people.
fn open(options: &ServeOptions) -> Result<(Arc<dyn PlantRepository>, String), Stop> {
    let data = &options.folder.data;
    let keep_events = options.keep_events;
    if let Some(config) = options.postgres.config()? {
        let config = PostgresConfig { keep_events, ..config };
        if config.url.can_be_overheard() {
            log::warn!(
                "what is sent to {}, the password among it, may be read by whoever is on the way: say \
                 sslmode=verify-full in the URL",
                config.url
            );
        }
        let opening = PostgresRepository::open(&config);
        let repository = postgres::block_on(opening).map_err(Stop::Io)?;
        // Tokens may be kept there all the same.
        make_folder(data).map_err(Stop::Io)?;
        return Ok((Arc::new(repository), config.url.to_string()));
    }
    let cache_mib = options.cache_mb;
    let config = SledConfig { cache_mib, keep_events, ..SledConfig::new(plants_folder(data)) };
    let repository = SledRepository::open(&config);
    let repository = repository.map_err(|error| Stop::Io(advise_verification(error, data)))?;
    Ok((Arc::new(repository), data.display().to_string()))
}

fn advise_verification(error: anyhow::Error, data: &Path) -> anyhow::Error {
    if error.downcast_ref::<Damaged>().is_none() {
        return error;
    }
    let data = shlex::try_quote(&data.to_string_lossy())
        .map_or_else(|_| "DIR".into(), |data| data.into_owned());
    error.context(format!(
        "`plantd verify --data {data}` lists what is wrong, `plantd export --data {data} FILE` saves what \
         can be read"
    ))
}

/// Lets this process have as many descriptors as it may, and says how many connections that is.
fn max_connections() -> anyhow::Result<NonZeroU32> {
    let Rlimit { current: before, maximum } = getrlimit(Resource::Nofile);
    if before != maximum
        && let Err(cause) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        log::warn!("cannot raise the limit of open files: {cause}; there may be less connections");
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = limit.saturating_sub(OTHER_DESCRIPTORS).min(MAX_CONNECTIONS.into());
    let connections = u32::try_from(connections).ok().and_then(NonZeroU32::new);
    connections.with_context(|| {
        format!(
            "this process may open {limit} files and needs more than {OTHER_DESCRIPTORS}; raise the \
             limit (ulimit -n, or LimitNOFILE= of systemd)"
        )
    })
}

fn environment_token() -> anyhow::Result<Option<TokenRecord>> {
    let Some(token) = std::env::var_os(TOKEN_VARIABLE) else { return Ok(None) };
    let token = token
        .into_string()
        .map_err(|_| anyhow!("the token is not UTF-8"))
        .and_then(|token| Ok(Token::chosen(token)?))
        .with_context(|| format!("{TOKEN_VARIABLE} cannot be used"))?;
    Ok(Some(TokenRecord::new(TokenName::new(TOKEN_VARIABLE)?, Scope::Write, &token)))
}

/// The tokens of the file, which is followed from now on, and that of the environment.
fn tokens_in_force(
    path: PathBuf,
    environment_token: Option<TokenRecord>,
    rate_limit: Option<NonZeroU32>,
) -> Result<Tokens, Stop> {
    let content = TokensFile::load(&path).map_err(Stop::of_file)?;
    let records = move |content: &Option<Vec<u8>>| -> anyhow::Result<Vec<TokenRecord>> {
        let mut records = match content {
            Some(bytes) => TokensFile::parse(bytes)?.tokens,
            None => Vec::new(),
        };
        records.extend(environment_token.clone());
        Ok(records)
    };
    let first = records(&content).with_context(|| path.display().to_string());
    let first = first.map_err(Stop::Configuration)?;
    if first.is_empty() {
        log::warn!("there is no token, so nobody may do anything; make one: plantd token create");
    }
    let tokens = match rate_limit {
        Some(rate_limit) => Tokens::with_rate_limit(first, rate_limit),
        None => Tokens::new(first),
    };
    let read = {
        let path = path.clone();
        move || TokensFile::load(&path)
    };
    let take = {
        let tokens = tokens.clone();
        move |content: &Option<Vec<u8>>| {
            ensure!(
                content.is_some(),
                "{} is gone; put it back, or revoke by `plantd token`",
                path.display()
            );
            tokens.replace(records(content)?);
            Ok(())
        }
    };
    follow("the tokens file", content, read, take).map_err(Stop::Io)?;
    Ok(tokens)
}
