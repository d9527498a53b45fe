//! Where connections come from.

use std::any::Any;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use tokio::net;

use crate::server::tls::TlsCertificate;
use crate::server::transport::Incoming;

/// A socket that listens, and whether those who connect speak TLS.
///
/// It is made from a [`TcpListener`] or a [`UnixListener`].
pub struct ListeningSocket {
    pub(crate) acceptor: Acceptor,
    pub(crate) guard: Option<Guard>,
    pub(crate) tls: Option<TlsCertificate>,
}

/// What is dropped when no more connections are to come.
pub(crate) type Guard = Box<dyn Any + Send>;

impl ListeningSocket {
    /// The same socket, where those who connect speak TLS.
    #[must_use]
    pub fn with_tls(self, certificate: TlsCertificate) -> Self {
        Self { tls: Some(certificate), ..self }
    }

    /// Drops `guard` when no more connections are to come, just before those that still wait are taken. A guard that
    /// removes the file of a Unix socket keeps clients from connecting in vain.
    #[must_use]
    pub fn with_guard(self, guard: impl Send + 'static) -> Self {
        Self { guard: Some(Box::new(guard)), ..self }
    }
}

impl fmt::Debug for ListeningSocket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acceptor, guard: _, tls } = self;
        formatter
            .debug_struct("ListeningSocket")
            .field("acceptor", acceptor)
            .field("tls", tls)
            .finish_non_exhaustive()
    }
}

impl From<TcpListener> for ListeningSocket {
    fn from(listener: TcpListener) -> Self {
        Self { acceptor: Acceptor::Tcp(listener), guard: None, tls: None }
    }
}

/// The file of the socket is left alone.
impl From<UnixListener> for ListeningSocket {
    fn from(listener: UnixListener) -> Self {
        Self { acceptor: Acceptor::Unix(listener), guard: None, tls: None }
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
