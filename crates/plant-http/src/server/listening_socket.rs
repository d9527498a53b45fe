//! The socket on which the server accepts connections: TCP or Unix, with TLS or without.

use std::any::Any;
use std::io;
use std::net::{self, SocketAddr};
use std::os::unix;

use socket2::{SockRef, Socket};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::either::Either;

use crate::server::tls::TlsCertificate;

/// A listening socket, and whether clients speak TLS on it.
///
/// The socket is made from a [`TcpListener`](net::TcpListener) or a [`UnixListener`](unix::net::UnixListener).
#[derive(Debug)]
pub struct ListeningSocket {
    pub(super) socket: Socket,
    pub(super) guard: Option<Guard>,
    pub(super) tls: Option<TlsCertificate>,
}

/// Dropped just before the listener closes.
pub(super) type Guard = Box<dyn Any + Send>;

impl ListeningSocket {
    /// The same socket, on which clients speak TLS.
    #[must_use]
    pub fn with_tls(self, certificate: TlsCertificate) -> Self {
        Self { tls: Some(certificate), ..self }
    }

    /// Drops `guard` at the end of the drain delay, just before the last waiting connections are accepted and the
    /// socket closes. A guard that removes the file of a Unix socket prevents clients from connecting just before the
    /// close.
    #[must_use]
    pub fn with_guard(self, guard: impl Send + 'static) -> Self {
        Self { guard: Some(Box::new(guard)), ..self }
    }
}

impl From<net::TcpListener> for ListeningSocket {
    fn from(listener: net::TcpListener) -> Self {
        Self { socket: listener.into(), guard: None, tls: None }
    }
}

/// The file of the socket is not removed.
impl From<unix::net::UnixListener> for ListeningSocket {
    fn from(listener: unix::net::UnixListener) -> Self {
        Self { socket: listener.into(), guard: None, tls: None }
    }
}

/// A connection that no runtime has registered yet, so that it can move to another thread.
pub(super) struct Accepted {
    pub(super) socket: Socket,
    /// The client's address; `None` on a Unix socket.
    pub(super) peer: Option<SocketAddr>,
}

/// A listening socket that is registered with the runtime of this thread.
pub(super) struct Acceptor(Either<TcpListener, UnixListener>);

impl Acceptor {
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self(if socket.local_addr()?.is_unix() {
            Either::Right(UnixListener::from_std(socket.into())?)
        } else {
            Either::Left(TcpListener::from_std(socket.into())?)
        }))
    }

    /// Waits for a connection, and accepts it. Dropping the future loses no connection.
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match &self.0 {
            Either::Left(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Accepted { socket: stream.into_std()?.into(), peer: Some(peer) })
            }
            Either::Right(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted { socket: stream.into_std()?.into(), peer: None })
            }
        }
    }

    /// Accepts a connection that waits, or fails with [`io::ErrorKind::WouldBlock`]. Calls `accept` on the socket
    /// itself, because the runtime may not know of a connection yet.
    pub(super) fn accept_waiting(&self) -> io::Result<Accepted> {
        let (socket, address) = match &self.0 {
            Either::Left(listener) => SockRef::from(listener).accept()?,
            Either::Right(listener) => SockRef::from(listener).accept()?,
        };
        Ok(Accepted { socket, peer: address.as_socket() })
    }
}
