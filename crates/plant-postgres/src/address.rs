//! The URL of a PostgreSQL.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// The connect timeout for one host, unless the URL sets one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long sent data may stay unacknowledged before the operating system closes the connection, unless the URL sets a
/// time.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

const PORT_ADVICE: &str = "a port is a number from 1 to 65535";

/// The URL of a PostgreSQL: `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTION=VALUE&…`.
///
/// Of several hosts, the first one that takes writes is used, regardless of `target_session_attrs`. A host that begins
/// with a percent-encoded `/` is the folder of a Unix socket. The options are those of libpq that tokio-postgres knows,
/// every `sslmode` except `allow`, and `sslrootcert`. TLS always verifies the certificate and the host's name, like
/// `verify-full` in libpq. Display and Debug omit the password and the options.
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
    config: Config,
    without_hosts: Config,
    root_certificates: Option<PathBuf>,
}

/// The text is not the URL of a PostgreSQL server, or has an unknown option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAPostgresUrl(String);

impl PostgresUrl {
    /// The file with the trusted root certificates, as PEM: the value of `sslrootcert`.
    #[must_use]
    pub fn root_certificates(&self) -> Option<&Path> {
        self.root_certificates.as_deref()
    }

    pub(super) fn each_host(&self) -> Vec<Config> {
        let (hosts, addresses) = (self.config.get_hosts(), self.config.get_hostaddrs());
        let of_one = |number: usize| {
            let mut one = self.without_hosts.clone();
            match hosts.get(number) {
                Some(Host::Tcp(host)) => drop(one.host(host)),
                Some(Host::Unix(folder)) => drop(one.host_path(folder)),
                None => {}
            }
            if let Some(address) = addresses.get(number) {
                one.hostaddr(*address);
            }
            one.port(self.port(number));
            one
        };
        (0..hosts.len().max(addresses.len())).map(of_one).collect()
    }

    /// The port of a host. A single port applies to all hosts.
    fn port(&self, host: usize) -> u16 {
        let ports = self.config.get_ports();
        ports.get(host).or(ports.first()).copied().unwrap_or(5432)
    }

    /// Whether TLS may be used: never over a Unix socket, unless `sslmode` requires TLS, which then fails.
    #[must_use]
    pub fn may_use_tls(&self) -> bool {
        let hosts = self.config.get_hosts();
        match self.config.get_ssl_mode() {
            SslMode::Disable => false,
            SslMode::Require => true,
            // Without hosts, there are addresses (`hostaddr`), which need TCP.
            _ => hosts.is_empty() || hosts.iter().any(|host| matches!(host, Host::Tcp(_))),
        }
    }

    /// Whether an attacker on the network could read the traffic or impersonate the server: over TCP to another
    /// machine, unless `sslmode` requires TLS.
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
        let rest = place.split_once("://").map_or(place, |(_, rest)| rest);
        let hosts_begin = rest.find('@').map_or(0, |at| at + 1);
        let (credentials, rest) = rest.split_at(hosts_begin);
        if credentials.is_empty() && options.contains('@') {
            // The client would take everything before the @ for a user and a password, and the rest for the host.
            return refuse("an @ in an option is written %40, and a ? in a password %3F");
        }
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        if !hosts.split(',').all(|host| is_port(port_of(host))) {
            return refuse(PORT_ADVICE);
        }
        let (mut known_to_client, mut root_certificates) = (Vec::new(), None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                // TLS always verifies the certificate and the name.
                Some(("sslmode", "verify-ca" | "verify-full")) => {
                    known_to_client.push("sslmode=require")
                }
                Some(("sslrootcert", path)) => {
                    let Ok(path) = percent_decode_str(path).decode_utf8() else {
                        return refuse("sslrootcert is not UTF-8");
                    };
                    root_certificates = Some(PathBuf::from(path.into_owned()));
                }
                Some(("port", ports))
                    if !percent_decode_str(ports).decode_utf8_lossy().split(',').all(is_port) =>
                {
                    return refuse(PORT_ADVICE);
                }
                _ => known_to_client.push(option),
            }
        }
        // The error may quote the names of options, but no values.
        let parse = |url: String| -> Result<Config, String> {
            let config: Result<Config, _> = url.parse();
            config.map(with_defaults).map_err(|error| format!("{:#}", anyhow::Error::from(error)))
        };
        let config = match parse(format!("{place}?{}", known_to_client.join("&"))) {
            Ok(config) => config,
            Err(error) => return refuse(&error),
        };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return refuse("it names no host");
        }
        let has_at = |host: &Host| matches!(host, Host::Tcp(host) if host.contains('@'));
        if config.get_hosts().iter().any(has_at) {
            // The host would show the text before the @, which is the end of a password.
            return refuse("an @ in the user or the password is written %40");
        }
        known_to_client.retain(|option| {
            let name = option.split('=').next().unwrap_or_default();
            !["host", "hostaddr", "port"].contains(&name)
        });
        let url = format!("postgres://{credentials}/{database}?{}", known_to_client.join("&"));
        match parse(url) {
            Ok(without_hosts) => Ok(Self { config, without_hosts, root_certificates }),
            Err(error) => refuse(&error),
        }
    }
}

/// The port in `HOST:PORT`, or an empty text.
fn port_of(host: &str) -> &str {
    // A colon within brackets is part of an IPv6 address.
    let after_address = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
    after_address.split_once(':').map_or("", |(_, port)| port)
}

/// Whether a text is a port, or empty for the default port, as in libpq. Parsing a `u16` alone would accept a sign.
fn is_port(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.is_empty() || (is_number && text.parse::<NonZeroU16>().is_ok())
}

fn with_defaults(mut config: Config) -> Config {
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
    config
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(formatter, "{user}@")?;
        }
        for (number, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let port = self.port(number);
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
    fn a_port_has_digits_alone_or_is_missing_and_a_password_may_look_like_anything_else() {
        for place in
            ["one:+1", "one:0", "one:65536", "one,[::1]:+1", "one/?port=1,%2B1", "u:p@one:1:2"]
        {
            let refusal = parse(&format!("postgres://{place}")).expect_err(place);
            assert!(refusal.contains("a port is a number from 1 to 65535"), "{refusal}");
        }
        for place in [
            "u:a/b:c@one:1/plants",
            "one:,[::1],%2Frun%2Fa",
            "/?host=one&port=1,,3&host=two&host=three",
        ] {
            assert!(parse(&format!("postgres://{place}")).is_ok(), "{place}");
        }
    }

    #[test]
    fn each_host_has_its_own_address_and_all_other_settings() {
        let url = "postgres://plantd:secret@one,[::1]:5433,%2Frun/plants?hostaddr=10.0.0.1,10.0.0.2,10.0.0.3\
                   &connect_timeout=3&sslmode=require&application_name=garden&target_session_attrs=any";
        let each = parse(url).expect("a URL").each_host();
        for (number, host) in ["one:5432", "::1:5433", "/run:5432"].into_iter().enumerate() {
            let (host, port) = host.rsplit_once(':').expect("a port");
            let address = format!("10.0.0.{}", number + 1).parse().expect("an address");
            let expected = match host.starts_with('/') {
                true => Host::Unix(host.into()),
                false => Host::Tcp(host.to_owned()),
            };
            let one = &each[number];
            assert_eq!((one.get_hosts(), one.get_hostaddrs()), (&[expected][..], &[address][..]));
            assert_eq!(one.get_ports(), [port.parse::<u16>().expect("a number")]);
            assert_eq!((one.get_user(), one.get_dbname()), (Some("plantd"), Some("plants")));
            assert_eq!(one.get_password(), Some(&b"secret"[..]));
            assert_eq!(one.get_connect_timeout(), Some(&Duration::from_secs(3)));
            assert_eq!(one.get_ssl_mode(), SslMode::Require);
            assert_eq!(one.get_application_name(), Some("garden"));
            // Only a host that takes writes is usable.
            assert_eq!(one.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
        assert_eq!(each.len(), 3);
        // One port for all hosts, set by an option, in a URL without user and database.
        let each = parse("postgres:///?host=one&host=two&port=7").expect("a URL").each_host();
        assert_eq!(each.iter().map(Config::get_ports).collect::<Vec<_>>(), [[7], [7]]);
        assert_eq!((each[1].get_user(), each[1].get_dbname()), (None, None));
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
    fn tls_is_for_hosts_of_a_network_and_can_be_disabled_and_required() {
        for (url, may_use_tls) in [
            ("postgres://one/plants", true),
            ("postgres:///plants?hostaddr=127.0.0.1", true),
            ("postgres://one/plants?sslmode=disable", false),
            ("postgres://%2Frun%2Fpostgresql/plants", false),
            ("postgres://%2Frun%2Fpostgresql,one/plants", true),
            ("postgres://%2Frun%2Fpostgresql/plants?sslmode=require", true),
        ] {
            assert_eq!(parse(url).expect("a URL").may_use_tls(), may_use_tls, "{url}");
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
    }
}
