//! Where a server listens.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a server says that it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// At this address, without TLS.
    Http(SocketAddr),
    /// At this address, with TLS.
    Https(SocketAddr),
    /// At the Unix socket with this path.
    Unix(PathBuf),
}

impl ServerAddress {
    /// What the line says that a server prints when it is ready.
    pub(crate) fn of_ready_line(line: &str) -> Option<Self> {
        let place = line.strip_prefix("plantd listening on ")?;
        if let Some(address) = place.strip_prefix("http://") {
            return address.parse().ok().map(Self::Http);
        }
        if let Some(address) = place.strip_prefix("https://") {
            return address.parse().ok().map(Self::Https);
        }
        place.strip_prefix("unix:").map(|path| Self::Unix(path.into()))
    }

    /// The address, with or without TLS.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Http(address) | Self::Https(address) => *address,
            Self::Unix(path) => panic!("{} has no address", path.display()),
        }
    }
}
