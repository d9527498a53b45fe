//! Where connections come from.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use tokio::net;

use crate::tls::TlsCertificate;
use crate::transport::Incoming;
use crate::unix_socket::{SocketName, UnixSocket};

/// A socket that listens, and whether those who connect speak TLS.
///
/// It is made from a [`TcpListener`], a [`UnixListener`] or a [`UnixSocket`].
#[derive(Debug)]
pub struct ListeningSocket {
    pub(crate) acceptor: Acceptor,
    /// Removed when no more connections are to come.
    pub(crate) name: Option<SocketName>,
    pub(crate) tls: Option<TlsCertificate>,
}

impl ListeningSocket {
    /// The same socket, where those who connect speak TLS.
    #[must_use]
    pub fn with_tls(self, certificate: TlsCertificate) -> Self {
        Self { tls: Some(certificate), ..self }
    }

    fn plain(acceptor: Acceptor, name: Option<SocketName>) -> Self {
        Self { acceptor, name, tls: None }
    }
}

impl From<TcpListener> for ListeningSocket {
    fn from(listener: TcpListener) -> Self {
        Self::plain(Acceptor::Tcp(listener), None)
    }
}

/// The name of the socket is left alone.
impl From<UnixListener> for ListeningSocket {
    fn from(listener: UnixListener) -> Self {
        Self::plain(Acceptor::Unix(listener), None)
    }
}

/// The name of the socket is removed when no more connections are to come.
impl From<UnixSocket> for ListeningSocket {
    fn from(UnixSocket { listener, name }: UnixSocket) -> Self {
        Self::plain(Acceptor::Unix(listener), Some(name))
    }
}

/// What connections are taken from.
#[derive(Debug)]
pub(crate) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    /// Takes a connection that waits. There is none when that would block.
    pub(crate) fn accept(&self) -> io::Result<Incoming> {
        match self {
            Self::Tcp(listener) => {
                listener.accept().map(|(stream, address)| Incoming::Tcp(stream, address))
            }
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Incoming::Unix(stream)),
        }
    }
}

/// The same, watched over by the runtime of this thread.
#[derive(Debug)]
pub(crate) enum WatchedAcceptor {
    Tcp(net::TcpListener),
    Unix(net::UnixListener),
}

impl WatchedAcceptor {
    pub(crate) fn new(acceptor: Acceptor) -> io::Result<Self> {
        match acceptor {
            Acceptor::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                net::TcpListener::from_std(listener).map(Self::Tcp)
            }
            Acceptor::Unix(listener) => {
                listener.set_nonblocking(true)?;
                net::UnixListener::from_std(listener).map(Self::Unix)
            }
        }
    }

    /// Waits for a connection, and takes it. None is lost when this is dropped.
    pub(crate) async fn accept(&self) -> io::Result<Incoming> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                stream.into_std().map(|stream| Incoming::Tcp(stream, address))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.into_std().map(Incoming::Unix)
            }
        }
    }

    /// It still waits for nothing.
    pub(crate) fn into_acceptor(self) -> io::Result<Acceptor> {
        match self {
            Self::Tcp(listener) => listener.into_std().map(Acceptor::Tcp),
            Self::Unix(listener) => listener.into_std().map(Acceptor::Unix),
        }
    }
}
