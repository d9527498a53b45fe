//! Plants in PostgreSQL: the options, and how TLS is spoken with it.

use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, value_parser};
use plant_store::{
    DEFAULT_POSTGRES_READING_SESSIONS, DEFAULT_POSTGRES_SCHEMA, POSTGRES_WRITING_SESSIONS,
    PostgresConfig, PostgresRepository, PostgresUrl, SchemaName,
};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::Stop;
use crate::cli::MigrateOptions;

/// The fewest connections that will do: one has to be left for reading.
const FEWEST_CONNECTIONS: u64 = POSTGRES_WRITING_SESSIONS as u64 + 1;

/// As many as anyone could want.
const MOST_CONNECTIONS: u64 = 1_000;

/// How many connections there are at most unless something else is said.
const DEFAULT_CONNECTIONS: u64 =
    POSTGRES_WRITING_SESSIONS as u64 + DEFAULT_POSTGRES_READING_SESSIONS.get() as u64;

// Where the plants are, if not in the folder. (As a documentation comment it would be the first line of the help.)
#[derive(Clone, Debug, Args)]
pub(crate) struct PostgresOptions {
    /// Keep the plants in this PostgreSQL: postgres://USER:PASSWORD@HOST:PORT/DATABASE, with commas between several
    /// hosts, of which the one that takes writes is used [default: in the folder]
    #[arg(long, value_name = "URL", env = "PLANTD_POSTGRES", hide_env_values = true)]
    postgres: Option<String>,

    /// The schema of the tables in PostgreSQL
    #[arg(long, value_name = "NAME", env = "PLANTD_POSTGRES_SCHEMA")]
    #[arg(default_value = DEFAULT_POSTGRES_SCHEMA)]
    postgres_schema: SchemaName,

    /// How many connections to PostgreSQL there are at most
    #[arg(long, value_name = "N", env = "PLANTD_POSTGRES_CONNECTIONS")]
    #[arg(default_value_t = DEFAULT_CONNECTIONS)]
    #[arg(value_parser = value_parser!(u64).range(FEWEST_CONNECTIONS..=MOST_CONNECTIONS))]
    postgres_connections: u64,
}

impl PostgresOptions {
    /// Whether the URL is one. The error says nothing of it, for a password may be in it.
    pub(crate) fn check(&self, command: &mut clap::Command) -> clap::error::Result<()> {
        let Some(Err(error)) = self.postgres.as_ref().map(|url| url.parse::<PostgresUrl>()) else {
            return Ok(());
        };
        let message = format!("--postgres (PLANTD_POSTGRES) cannot be used: {error}");
        let mut error = command.error(ErrorKind::ValueValidation, message);
        error.insert(ContextKind::InvalidArg, ContextValue::String("--postgres".to_owned()));
        Err(error)
    }

    /// Where the plants are, if they are in PostgreSQL.
    pub(crate) fn config(&self) -> Result<Option<PostgresConfig>, Stop> {
        let Some(url) = &self.postgres else { return Ok(None) };
        let url: PostgresUrl = url.parse().context("--postgres").map_err(Stop::Usage)?;
        let tls = if url.may_use_tls() { Some(tls(&url)?) } else { None };
        let connections = usize::try_from(self.postgres_connections).unwrap_or(usize::MAX);
        let reading = connections.saturating_sub(POSTGRES_WRITING_SESSIONS);
        let reading_sessions =
            NonZeroUsize::new(reading).unwrap_or(DEFAULT_POSTGRES_READING_SESSIONS);
        let schema = self.postgres_schema.clone();
        Ok(Some(PostgresConfig { schema, tls, reading_sessions, ..PostgresConfig::new(url) }))
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
    let pem = std::fs::read(path)
        .with_context(|| format!("cannot read the certificates in {}", path.display()))?;
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
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.context("cannot start a runtime")?.block_on(work)
}

/// `plantd migrate`.
pub(crate) fn migrate(options: &MigrateOptions) -> Result<(), Stop> {
    let config = options.postgres.config()?;
    let config = config
        .context("give the URL of PostgreSQL by --postgres, or better in PLANTD_POSTGRES")
        .map_err(Stop::Usage)?;
    let (before, now) = block_on(PostgresRepository::migrate(&config)).map_err(Stop::Io)?;
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
