//! Where the server listens.

use std::env;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use listenfd::ListenFd;
use plant_http::ListeningSocket;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use url::{Host, Url};

use crate::exit::Stop;
use crate::files::unix_socket::{self, UNIX_PREFIX};
use crate::serve::certificate::Certificate;
use crate::serve::server_address::ServerAddress;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Where to listen without `--listen` and without a passed socket.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

#[derive(Clone, Debug, Args)]
pub(crate) struct ListenOptions {
    /// Where to listen; port 0 picks a free one, and unix:PATH is a Unix socket
    /// [default: the socket that systemd passes, or 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT", env = "PLANTD_LISTEN")]
    listen: Option<ListenAddress>,

    /// Speak TLS with this certificate and its chain, as PEM
    #[arg(long, value_name = "FILE", env = "PLANTD_TLS_CERT")]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", env = "PLANTD_TLS_KEY")]
    tls_key: Option<PathBuf>,
}

impl ListenOptions {
    /// Checks combinations of options. The error names one of the options, preferably one on the command line: the exit code
    /// depends on whether the value comes from the command line or from the environment.
    pub(crate) fn check(
        &self,
        matches: &ArgMatches,
        command: &mut clap::Command,
    ) -> clap::error::Result<()> {
        let (flags, message): (&[&str], _) = match (&self.listen, &self.tls_cert, &self.tls_key) {
            (_, Some(_), None) => (
                &["--tls-cert"],
                "--tls-cert (PLANTD_TLS_CERT) needs --tls-key (PLANTD_TLS_KEY) too",
            ),
            (_, None, Some(_)) => (
                &["--tls-key"],
                "--tls-key (PLANTD_TLS_KEY) needs --tls-cert (PLANTD_TLS_CERT) too",
            ),
            (Some(ListenAddress::Unix(_)), Some(_), Some(_)) => (
                &["--listen", "--tls-cert", "--tls-key"],
                "TLS is for connections over TCP: leave out --tls-cert and --tls-key (PLANTD_TLS_CERT, \
                 PLANTD_TLS_KEY), or give --listen (PLANTD_LISTEN) an address and a port",
            ),
            _ => return Ok(()),
        };
        let is_on_command_line = |flag: &&&str| {
            let id = flag.trim_start_matches("--").replace('-', "_");
            matches.value_source(&id) == Some(ValueSource::CommandLine)
        };
        let blamed = flags.iter().find(is_on_command_line).unwrap_or(&flags[0]);
        let mut error = command.error(ErrorKind::MissingRequiredArgument, message);
        error.insert(ContextKind::InvalidArg, ContextValue::String((*blamed).to_owned()));
        Err(error)
    }

    /// Reads the certificate, if the options name one.
    pub(crate) fn certificate(&self) -> Result<Option<Certificate>, Stop> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(chain), Some(key)) => Certificate::read(chain, key).map(Some),
            _ => Ok(None),
        }
    }

    /// The socket that was passed to this process, if any. Call this once, before there are other threads: it removes
    /// variables from the environment.
    pub(crate) fn passed_socket(&self) -> anyhow::Result<Option<PassedSocket>> {
        let socket = PassedSocket::from_environment().map_err(|cause| {
            anyhow!(
                "the passed socket (LISTEN_FDS) cannot be used: {cause:#}; pass one socket that listens, over \
                 TCP or at the path of a Unix socket"
            )
        })?;
        ensure!(
            socket.is_none() || self.listen.is_none(),
            "a socket was passed (LISTEN_FDS), and plantd listens on that socket alone: leave out --listen \
             (PLANTD_LISTEN)"
        );
        ensure!(
            !matches!(socket, Some(PassedSocket::Unix(..))) || self.tls_cert.is_none(),
            "TLS is for connections over TCP, and a Unix socket was passed (LISTEN_FDS): leave out --tls-cert \
             and --tls-key (PLANTD_TLS_CERT, PLANTD_TLS_KEY), or pass a TCP socket"
        );
        Ok(socket)
    }

    /// Listens, on the passed socket if there is one. Connections wait until they are accepted.
    pub(crate) fn listen(
        &self,
        passed: Option<PassedSocket>,
        certificate: Option<&Certificate>,
    ) -> anyhow::Result<(ListeningSocket, ServerAddress)> {
        let address = match passed {
            Some(PassedSocket::Tcp(listener)) => return with_tls(listener, certificate),
            // The socket's path belongs to the process that has made it, and stays.
            Some(PassedSocket::Unix(listener, path)) => {
                return Ok((listener.into(), ServerAddress::Unix(path)));
            }
            None => self.listen.clone().unwrap_or(ListenAddress::Tcp(DEFAULT_ADDRESS)),
        };
        let listening = match &address {
            ListenAddress::Tcp(address) => {
                listen_tcp(*address).and_then(|listener| with_tls(listener, certificate))
            }
            ListenAddress::Unix(_) => address.listen(),
        };
        listening.map_err(|cause| cannot_listen(&address, &cause, "--listen"))
    }
}

/// The error for an address of this option.
pub(crate) fn cannot_listen(
    address: &ListenAddress,
    cause: &anyhow::Error,
    option: &str,
) -> anyhow::Error {
    anyhow!("cannot listen on {address}: {cause:#}; give another address with {option}")
}

fn listen_tcp(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn with_tls(
    listener: TcpListener,
    certificate: Option<&Certificate>,
) -> anyhow::Result<(ListeningSocket, ServerAddress)> {
    let address = listener.local_addr()?;
    let socket = ListeningSocket::from(listener);
    if let Some(certificate) = certificate {
        let https = ServerAddress::Https(address, certificate.chain.clone());
        return Ok((socket.with_tls(certificate.in_force.clone()), https));
    }
    if !address.ip().to_canonical().is_loopback() {
        log::warn!(
            "connections to {address} are not encrypted, so others on the network can read tokens: \
             speak TLS (--tls-cert, --tls-key), or listen on 127.0.0.1 behind a proxy that does"
        );
    }
    Ok((socket, ServerAddress::Http(address)))
}

#[derive(Clone, Debug)]
pub(crate) enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl ListenAddress {
    /// Listens without TLS.
    pub(crate) fn listen(&self) -> anyhow::Result<(ListeningSocket, ServerAddress)> {
        Ok(match self {
            Self::Tcp(address) => {
                let listener = listen_tcp(*address)?;
                let address = ServerAddress::Http(listener.local_addr()?);
                (listener.into(), address)
            }
            Self::Unix(path) => {
                (unix_socket::listen(path, BACKLOG)?, ServerAddress::Unix(path.clone()))
            }
        })
    }
}

impl FromStr for ListenAddress {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix(UNIX_PREFIX) {
            unix_socket::check_path(path.as_ref())?;
            return Ok(Self::Unix(path.into()));
        }
        let advice =
            "give an address and a port, such as 127.0.0.1:8080 or [::1]:8080, or unix:PATH";
        if let Ok(address) = text.parse() {
            return Ok(Self::Tcp(address));
        }
        let (name, port) = name_and_port(text).with_context(|| advice)?;
        let addresses = (name, port).to_socket_addrs();
        let mut addresses = addresses.map_err(|cause| anyhow!("{cause}; {advice}"))?;
        addresses.next().map(Self::Tcp).context("the name has no address")
    }
}

/// Parses `HOST:PORT` as the URL Standard does; `None` for any other text.
fn name_and_port(text: &str) -> Option<(String, u16)> {
    // The scheme has no default port, so the URL keeps every port.
    let url = Url::parse(&format!("tcp://{text}")).ok()?;
    let (name, port) = url.host_str().zip(url.port())?;
    let is_all = text == format!("{name}:{port}");
    (is_all && matches!(Host::parse(name), Ok(Host::Domain(_)))).then(|| (name.to_owned(), port))
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

/// A socket that another process keeps open, so that connections wait while no server runs.
#[derive(Debug)]
pub(crate) enum PassedSocket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl PassedSocket {
    /// The socket that `LISTEN_FDS` announces, if any.
    fn from_environment() -> anyhow::Result<Option<Self>> {
        let count = env::var("LISTEN_FDS").unwrap_or_else(|_| "0".to_owned());
        ensure!(count.parse::<u16>().is_ok(), "{count:?} is no count of sockets");
        let mut passed = ListenFd::from_env();
        match passed.len() {
            0 => return Ok(None),
            1 => {}
            count => bail!("there are {count} sockets, and a server takes one"),
        }
        if let Ok(Some(listener)) = passed.take_unix_listener(0) {
            let address = listener.local_addr()?;
            let path = address.as_pathname().context("the Unix socket has no path")?;
            ensure_listens(&listener)?;
            return Ok(Some(Self::Unix(listener, path.to_owned())));
        }
        let listener = passed.take_tcp_listener(0).ok().flatten();
        let listener = listener.context("it is neither a TCP socket nor a Unix socket")?;
        ensure_listens(&listener)?;
        Ok(Some(Self::Tcp(listener)))
    }
}

fn ensure_listens<'socket>(socket: impl Into<SockRef<'socket>>) -> anyhow::Result<()> {
    ensure!(socket.into().is_listener()?, "the socket does not listen");
    Ok(())
}
