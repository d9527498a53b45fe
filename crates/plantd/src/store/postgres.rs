//! The options of PostgreSQL, its TLS configuration, and `plantd migrate`.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::Args;
use clap::builder::TypedValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use plant_postgres::{
    DEFAULT_READING_SESSIONS, DEFAULT_SCHEMA, FEWEST_READING_SESSIONS, PostgresConfig,
    PostgresRepository, PostgresUrl, SchemaName, WRITING_SESSIONS,
};
use plant_store::OpenError;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::exit::Stop;
use crate::option_value::whole_number;
use crate::print::print;

const FEWEST_CONNECTIONS: u64 = WRITING_SESSIONS as u64 + FEWEST_READING_SESSIONS as u64;

const MOST_CONNECTIONS: u64 = 1_000;

const DEFAULT_CONNECTIONS: u64 = WRITING_SESSIONS as u64 + DEFAULT_READING_SESSIONS.get() as u64;

// No documentation comment: it would be the first line of the help.
#[derive(Clone, Debug, Args)]
pub(crate) struct PostgresOptions {
    /// Keep the plants in PostgreSQL: postgres://USER:PASSWORD@HOST:PORT/DATABASE, with commas between several hosts, of
    /// which the one that takes writes is used
    #[arg(long, value_name = "URL", env = "PLANTD_POSTGRES", hide_env_values = true)]
    #[arg(value_parser = UrlParser)]
    postgres: Option<PostgresUrl>,

    /// The schema of the tables in PostgreSQL
    #[arg(long, value_name = "NAME", env = "PLANTD_POSTGRES_SCHEMA")]
    #[arg(default_value = DEFAULT_SCHEMA)]
    postgres_schema: SchemaName,
}

// No documentation comment, as above.
#[derive(Clone, Debug, Args)]
pub(crate) struct PostgresServeOptions {
    #[command(flatten)]
    database: PostgresOptions,

    /// The most connections to PostgreSQL
    #[arg(long, value_name = "N", env = "PLANTD_POSTGRES_CONNECTIONS")]
    #[arg(default_value_t = DEFAULT_CONNECTIONS)]
    #[arg(value_parser = whole_number(FEWEST_CONNECTIONS..=MOST_CONNECTIONS))]
    #[arg(allow_hyphen_values = true)]
    postgres_connections: u64,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A server also makes the tables when it starts, if its user of the database may. If not, run this as a \
    user who may, and grant the server's user USAGE on the schema, USAGE and SELECT on its sequence, and SELECT, INSERT, \
    UPDATE and DELETE on its tables."
)]
pub(crate) struct MigrateOptions {
    #[command(flatten)]
    postgres: PostgresOptions,
}

/// Parses a URL. The error quotes no part of the URL, which may hold a password.
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
    /// The configuration, if the plants are in PostgreSQL.
    pub(crate) fn config(&self) -> Result<Option<PostgresConfig>, Stop> {
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
    /// The configuration for a server, if the plants are in PostgreSQL.
    pub(crate) fn config(&self) -> Result<Option<PostgresConfig>, Stop> {
        let Some(mut config) = self.database.config()? else { return Ok(None) };
        let reading = usize::try_from(self.postgres_connections)?.saturating_sub(WRITING_SESSIONS);
        config.reading_sessions = reading.try_into()?;
        Ok(Some(config))
    }
}

/// Trusts the root certificates in the file that the URL names, or else those of this system.
fn tls(url: &PostgresUrl) -> Result<ClientConfig, Stop> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("cannot set up TLS")?;
    let verified = match url.root_certificates() {
        Some(path) => builder.with_root_certificates(roots(path).map_err(Stop::of_file)?),
        None => builder
            .with_platform_verifier()
            .context("cannot read the certificates of this system")?,
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
        let added = certificate.map_err(anyhow::Error::from);
        let added = added.and_then(|certificate| Ok(roots.add(certificate)?));
        added.with_context(|| format!("{} holds a certificate that is broken", path.display()))?;
    }
    ensure!(!roots.is_empty(), "{} holds no certificate", path.display());
    Ok(roots)
}

/// Runs work on PostgreSQL to its end, on a runtime of its own: the server has not started yet.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, OpenError>>) -> Result<T, Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.context("cannot start a runtime")?;
    Ok(runtime.block_on(work)?)
}

/// `plantd migrate`.
pub(crate) fn migrate(options: &MigrateOptions) -> Result<(), Stop> {
    let config = options.postgres.config()?;
    let config = config
        .context("give the URL of PostgreSQL by --postgres, or better in PLANTD_POSTGRES")
        .map_err(Stop::Usage)?;
    let migration = block_on(PostgresRepository::migrate(&config))?;
    let schema = &config.schema;
    if let Some(missing) = migration.missing_index {
        writeln!(io::stderr(), "warning: {missing}").context("cannot write to standard error")?;
    }
    let said = if migration.made_tables {
        format!("made the tables in schema {schema}")
    } else {
        format!("the tables in schema {schema} are there already")
    };
    Ok(print(format!("{said}\n").as_bytes())?)
}
