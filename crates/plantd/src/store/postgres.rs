//! Plants in PostgreSQL: the options, and how TLS is spoken with it.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::Args;
use clap::builder::TypedValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use plant_postgres::{
    DEFAULT_READING_SESSIONS, DEFAULT_SCHEMA, PostgresConfig, PostgresRepository, PostgresUrl,
    SchemaName, WRITING_SESSIONS,
};
use plant_store::OpenError;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::exit::Stop;
use crate::option_value::whole_number;

/// The fewest connections that will do: one has to be left for reading.
const FEWEST_CONNECTIONS: u64 = WRITING_SESSIONS as u64 + 1;

/// As many as anyone could want.
const MOST_CONNECTIONS: u64 = 1_000;

/// How many connections there are at most unless something else is said.
const DEFAULT_CONNECTIONS: u64 = WRITING_SESSIONS as u64 + DEFAULT_READING_SESSIONS.get() as u64;

// Where the plants are, if not in the folder. (As a documentation comment it would be the first line of the help.)
#[derive(Clone, Debug, Args)]
pub(crate) struct PostgresOptions {
    /// The PostgreSQL that the plants are in: postgres://USER:PASSWORD@HOST:PORT/DATABASE, with commas between several
    /// hosts, of which the one that takes writes is used
    #[arg(long, value_name = "URL", env = "PLANTD_POSTGRES", hide_env_values = true)]
    #[arg(value_parser = UrlParser)]
    postgres: Option<PostgresUrl>,

    /// The schema of the tables in PostgreSQL
    #[arg(long, value_name = "NAME", env = "PLANTD_POSTGRES_SCHEMA")]
    #[arg(default_value = DEFAULT_SCHEMA)]
    postgres_schema: SchemaName,
}

// What a server uses of it.
#[derive(Clone, Debug, Args)]
pub(crate) struct PostgresServeOptions {
    #[command(flatten)]
    database: PostgresOptions,

    /// How many connections to PostgreSQL there are at most
    #[arg(long, value_name = "N", env = "PLANTD_POSTGRES_CONNECTIONS")]
    #[arg(default_value_t = DEFAULT_CONNECTIONS)]
    #[arg(value_parser = whole_number(FEWEST_CONNECTIONS..=MOST_CONNECTIONS))]
    #[arg(allow_hyphen_values = true)]
    postgres_connections: u64,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A server does the same when it starts, where its user of the database may. This is for one who \
    may:\nmake the tables as that one, and grant the server's user USAGE on the schema, USAGE and SELECT on its sequence, and \
    SELECT, INSERT,\nUPDATE and DELETE on its tables."
)]
pub(crate) struct MigrateOptions {
    #[command(flatten)]
    postgres: PostgresOptions,
}

/// Reads a URL, and shows nothing of it when it is none: a password may be in it.
#[derive(Clone, Debug)]
struct UrlParser;

impl TypedValueParser for UrlParser {
    type Value = PostgresUrl;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> clap::error::Result<PostgresUrl> {
        let parsed = value.to_str().context("it is not UTF-8").and_then(|url| Ok(url.parse()?));
        parsed.map_err(|error| {
            let message = format!("--postgres (PLANTD_POSTGRES) cannot be used: {error}");
            let mut error = command.clone().error(ErrorKind::ValueValidation, message);
            let flag = ContextValue::String("--postgres".to_owned());
            error.insert(ContextKind::InvalidArg, flag);
            error
        })
    }
}

impl PostgresOptions {
    /// Where the plants are, if they are in PostgreSQL.
    fn config(&self) -> Result<Option<PostgresConfig>, Stop> {
        let Some(url) = self.postgres.clone() else { return Ok(None) };
        let tls = if url.may_use_tls() { Some(tls(&url)?) } else { None };
        let schema = self.postgres_schema.clone();
        let mut config = PostgresConfig::new(url);
        config.schema = schema;
        config.tls = tls;
        Ok(Some(config))
    }
}

impl PostgresServeOptions {
    /// Where the plants are, if they are in PostgreSQL, and what may be used of it.
    pub(crate) fn config(&self) -> Result<Option<PostgresConfig>, Stop> {
        let Some(mut config) = self.database.config()? else { return Ok(None) };
        let reading = usize::try_from(self.postgres_connections - FEWEST_CONNECTIONS);
        // One of the fewest is for reading too.
        config.reading_sessions = NonZeroUsize::MIN.saturating_add(reading.unwrap_or(usize::MAX));
        Ok(Some(config))
    }
}

/// Whom a server may be vouched for by: those in the file of the URL, or else those of this system.
fn tls(url: &PostgresUrl) -> Result<ClientConfig, Stop> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("TLS cannot be spoken")
        .map_err(Stop::Io)?;
    let verified = match url.root_certificates() {
        Some(path) => builder.with_root_certificates(roots(path).map_err(Stop::of_file)?),
        None => builder
            .with_platform_verifier()
            .context("the certificates of this system cannot be read")
            .map_err(Stop::Io)?,
    };
    Ok(verified.with_no_client_auth())
}

fn roots(path: &Path) -> anyhow::Result<RootCertStore> {
    let pem = std::fs::read(path).with_context(|| {
        format!(
            "cannot read the certificates in {}; check the path that sslrootcert names",
            path.display()
        )
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let added =
            certificate.context("no PEM").and_then(|certificate| Ok(roots.add(certificate)?));
        added.with_context(|| format!("{} holds what is no certificate", path.display()))?;
    }
    ensure!(!roots.is_empty(), "{} holds no certificate", path.display());
    Ok(roots)
}

/// Does what needs PostgreSQL before there is a server.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, OpenError>>) -> Result<T, Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.context("cannot start a runtime").map_err(Stop::Io)?;
    runtime.block_on(work).map_err(|error| Stop::Io(error.into()))
}

/// `plantd migrate`.
pub(crate) fn migrate(options: &MigrateOptions) -> Result<(), Stop> {
    let config = options.postgres.config()?;
    let config = config
        .context("give the URL of PostgreSQL by --postgres, or better in PLANTD_POSTGRES")
        .map_err(Stop::Usage)?;
    let (before, now) = block_on(PostgresRepository::migrate(&config))?;
    let schema = &config.schema;
    let said = if before == now {
        format!("the tables in schema {schema} have version {now} already")
    } else if before == 0 {
        format!("made the tables in schema {schema}, version {now}")
    } else {
        format!("the tables in schema {schema} have version {now} now, and had {before}")
    };
    writeln!(io::stdout(), "{said}").context("cannot write to standard output").map_err(Stop::Io)
}
