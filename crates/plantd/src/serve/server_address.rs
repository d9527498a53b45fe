//! The address of the server, in the ready line and in commands to paste.

use std::fmt;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::files::unix_socket::UNIX_PREFIX;

#[derive(Debug)]
pub(crate) enum ServerAddress {
    Http(SocketAddr),
    /// With the file of the certificate.
    Https(SocketAddr, PathBuf),
    Unix(PathBuf),
}

impl ServerAddress {
    /// Prints the ready line, the only one on standard output. Scripts wait for it.
    pub(crate) fn say_ready(&self) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "plantd listening on {self}")
            .and_then(|()| out.flush())
            .context("cannot write to standard output")
    }

    /// The URL of the server on this machine, for browsers; `None` on a Unix socket, which they cannot reach.
    pub(crate) fn url(&self) -> Option<String> {
        match self {
            Self::Http(address) => Some(format!("http://{}", reachable(*address))),
            Self::Https(address, _) => Some(format!("https://{}", reachable(*address))),
            Self::Unix(_) => None,
        }
    }

    /// The address for people, who can open a URL of this machine, and must know whether others can reach the server.
    pub(crate) fn described(&self) -> String {
        match self.url() {
            Some(url) if url != self.to_string() => format!("{url} (listens on {self})"),
            _ => self.to_string(),
        }
    }

    /// The shell words that let curl on this machine find `/plants`.
    pub(crate) fn curl_arguments(&self) -> anyhow::Result<String> {
        let plants = format!("{}/plants", self.url().as_deref().unwrap_or("http://localhost"));
        Ok(match self {
            Self::Http(_) => plants,
            Self::Https(_, chain) => format!("--cacert {} {plants}", quoted(chain)?),
            Self::Unix(path) => format!("--unix-socket {} {plants}", quoted(path)?),
        })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(address) => write!(formatter, "http://{address}"),
            Self::Https(address, _) => write!(formatter, "https://{address}"),
            Self::Unix(path) => write!(formatter, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

/// An absolute path, quoted for a shell.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    let path = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(shlex::try_quote(path)?.into_owned())
}

/// Replaces an unspecified address by loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
