//! The URL of a PostgreSQL.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// How long the TCP connection to one host may take, unless the URL says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long sent data may stay without an acknowledgement before the operating system closes the connection, unless the URL
/// says otherwise.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

/// The URL of a PostgreSQL: `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTION=VALUE&…`.
///
/// Of several hosts, the first one that takes writes is used, whatever `target_session_attrs` says. A host that begins with
/// a percent-encoded `/` is the folder of a Unix socket. The options are those of libpq that tokio-postgres knows, `sslmode`
/// in all its values but `allow`, and `sslrootcert`. TLS always verifies the certificate and the host's name, as
/// `verify-full` does in libpq. Display and Debug leave out the password and the options.
///
/// ```
/// use plant_postgres::PostgresUrl;
///
/// let url: PostgresUrl = "postgres://plantd:secret@one,two:5433/plants?sslmode=verify-full".parse()?;
/// assert_eq!(url.to_string(), "postgres://plantd@one:5432,two:5433/plants");
/// assert!("http://one/plants".parse::<PostgresUrl>().is_err());
/// # Ok::<(), plant_postgres::NotAPostgresUrl>(())
/// ```
#[derive(Clone)]
pub struct PostgresUrl {
    pub(super) config: Config,
    root_certificates: Option<PathBuf>,
}

/// The text is no URL of a PostgreSQL, or has an unknown option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAPostgresUrl(String);

impl PostgresUrl {
    /// The file with the trusted root certificates, as PEM: the value of `sslrootcert`.
    #[must_use]
    pub fn root_certificates(&self) -> Option<&Path> {
        self.root_certificates.as_deref()
    }

    /// Whether TLS may be used.
    #[must_use]
    pub fn may_use_tls(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }

    /// Whether somebody on the way could read the traffic or impersonate the server: over TCP to another machine, unless
    /// `sslmode` requires TLS.
    #[must_use]
    pub fn can_be_overheard(&self) -> bool {
        let is_elsewhere = |host: &Host| match host {
            Host::Unix(_) => false,
            Host::Tcp(host) => {
                let address = host.parse::<IpAddr>();
                host != "localhost" && !address.is_ok_and(|address| address.is_loopback())
            }
        };
        self.config.get_ssl_mode() != SslMode::Require
            && self.config.get_hosts().iter().any(is_elsewhere)
    }
}

impl FromStr for PostgresUrl {
    type Err = NotAPostgresUrl;

    fn from_str(text: &str) -> Result<Self, NotAPostgresUrl> {
        let refuse = |why: &str| {
            Err(NotAPostgresUrl(format!(
                "a URL is postgres://USER:PASSWORD@HOST:PORT/DATABASE: {why}"
            )))
        };
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return refuse("it must begin with postgres://");
        }
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let (mut known_to_client, mut root_certificates) = (Vec::new(), None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                // With TLS, the certificate and the name are verified in any case.
                Some(("sslmode", "verify-ca" | "verify-full")) => {
                    known_to_client.push("sslmode=require")
                }
                Some(("sslrootcert", path)) => {
                    let Ok(path) = percent_decode_str(path).decode_utf8() else {
                        return refuse("sslrootcert is not UTF-8");
                    };
                    root_certificates = Some(PathBuf::from(path.into_owned()));
                }
                _ => known_to_client.push(option),
            }
        }
        let url = format!("{place}?{}", known_to_client.join("&"));
        let mut config: Config = match url.parse() {
            Ok(config) => config,
            // The error quotes names of options only.
            Err(error) => return refuse(&format!("{:#}", anyhow::Error::from(error))),
        };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return refuse("it names no host");
        }
        let has_at = |host: &Host| matches!(host, Host::Tcp(host) if host.contains('@'));
        if config.get_hosts().iter().any(has_at) {
            // The text before the @ is the end of a password, and a host would be shown.
            return refuse("an @ in the user or the password is written %40");
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("plantd");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_USER_TIMEOUT);
        }
        Ok(Self { config, root_certificates })
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(formatter, "{user}@")?;
        }
        let ports = self.config.get_ports();
        let port_of = |host: usize| ports.get(host).or(ports.first()).copied().unwrap_or(5432);
        for (number, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let port = port_of(number);
            match host {
                Host::Tcp(host) => write!(formatter, "{comma}{host}:{port}")?,
                Host::Unix(folder) => write!(formatter, "{comma}{}:{port}", folder.display())?,
            }
        }
        write!(formatter, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<PostgresUrl, String> {
        url.parse().map_err(|error: NotAPostgresUrl| error.to_string())
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let url = parse("postgres://plantd:secret@one/plants?connect_timeout=3").expect("a URL");
        assert!(!format!("{url} {url:?}").contains("secret"));
        for wrong in [
            "postgres://plantd:secret@one:port/plants",
            "postgres://plantd:secret@one/plants?sslmode=secret",
            "postgres://plantd:secret@one/plants?password",
            "mysql://plantd:secret@one/plants",
            "postgres://plantd:secret@/plants",
            "postgres://plantd:a@secret@one/plants",
            "plantd:secret",
        ] {
            let refusal = parse(wrong).expect_err(wrong);
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn only_a_host_that_takes_writes_will_do() {
        for url in ["postgres://one/plants", "postgres://one,two/plants?target_session_attrs=any"] {
            let config = parse(url).expect("a URL").config;
            assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
    }

    #[test]
    fn a_connection_without_tls_to_another_machine_can_be_overheard() {
        for (url, can_be) in [
            ("postgres://one/plants", true),
            ("postgres://localhost,192.0.2.1/plants?sslmode=disable", true),
            ("postgres://one/plants?sslmode=verify-full", false),
            ("postgres://localhost,127.0.0.1,[::1]/plants", false),
            ("postgres://%2Frun%2Fpostgresql/plants", false),
        ] {
            assert_eq!(parse(url).expect("a URL").can_be_overheard(), can_be, "{url}");
        }
    }

    #[test]
    fn every_sslmode_with_verification_verifies_everything() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://one/plants?sslmode={mode}&sslrootcert=%2Fa%20b.pem");
            let url = parse(&url).expect("a URL");
            assert_eq!(url.config.get_ssl_mode(), SslMode::Require, "{mode}");
            assert_eq!(url.root_certificates(), Some(Path::new("/a b.pem")));
        }
        assert!(!parse("postgres://one/plants?sslmode=disable").expect("a URL").may_use_tls());
        assert!(parse("postgres://one/plants?sslmode=maybe").is_err());
    }
}
