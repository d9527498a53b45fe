//! What the bytes of a connection travel over: a TCP or a Unix socket, with TLS on it or without.
//!
//! TLS keeps bytes back, on both ways. What matters to deadlines and to the drain is what happens on the
//! socket below it, and that is where it is looked at: whether the client takes anything ([`TimedSocket`]), and
//! whether anything has come from it, if only a part of what TLS can show ([`Transport::take_news`]).

use std::io::{self, ErrorKind, IoSlice};
use std::mem::{self, MaybeUninit};
use std::net::{self, SocketAddr};
use std::os::unix;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::server::deadlines::ANSWER_IDLE_DEADLINE;

/// A connection that was taken, and that no runtime watches over yet.
#[derive(Debug)]
pub(crate) enum Incoming {
    Tcp(net::TcpStream, SocketAddr),
    Unix(unix::net::UnixStream),
}

impl Incoming {
    /// Where the client is, unless it has come through a Unix socket.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(_, address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

/// A socket that the runtime of this thread watches over.
type Socket = Either<TcpStream, UnixStream>;

fn watched(incoming: Incoming) -> io::Result<Socket> {
    match incoming {
        Incoming::Tcp(stream, _) => {
            stream.set_nonblocking(true)?;
            // An answer is written in one piece: there is nothing to wait for.
            stream.set_nodelay(true)?;
            TcpStream::from_std(stream).map(Either::Left)
        }
        Incoming::Unix(stream) => {
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream).map(Either::Right)
        }
    }
}

/// A socket whose client has to take what is written in time. TLS says that it has written what it has
/// only kept, so that a client that takes nothing would not be noticed above it.
pub(crate) struct TimedSocket {
    socket: Socket,
    /// Wakes the connection when the client has taken nothing for too long; only while it does not.
    stuck_alarm: Option<Pin<Box<Sleep>>>,
    /// Whether something came since this was last asked for.
    has_news: bool,
}

impl TimedSocket {
    /// A connection on this thread.
    pub(crate) fn new(incoming: Incoming) -> io::Result<Self> {
        Ok(Self { socket: watched(incoming)?, stuck_alarm: None, has_news: false })
    }

    /// Whether something has come that is not read yet. The runtime believes that nothing has until its
    /// driver has asked, but wakes whoever reads when it has.
    fn has_bytes(&self) -> bool {
        let socket = match &self.socket {
            Either::Left(stream) => SockRef::from(stream),
            Either::Right(stream) => SockRef::from(stream),
        };
        socket.peek(&mut [MaybeUninit::uninit()]).is_ok_and(|bytes| bytes > 0)
    }

    /// What came of writing, unless the client has taken nothing for too long.
    fn unless_stuck(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stuck_alarm = None;
            return written;
        }
        let alarm = self.stuck_alarm.get_or_insert_with(|| Box::pin(sleep(ANSWER_IDLE_DEADLINE)));
        alarm.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let filled = buffer.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(context, buffer);
        this.has_news |= buffer.filled().len() > filled;
        read
    }
}

impl AsyncWrite for TimedSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write(context, bytes);
        this.unless_stuck(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write_vectored(context, slices);
        this.unless_stuck(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

/// What a connection reads from and writes to.
pub(crate) enum Transport {
    Plain(TimedSocket),
    /// It is large, and most connections have none.
    Tls(Box<TlsStream<TimedSocket>>),
}

impl Transport {
    /// The handshake has come to its end.
    pub(crate) fn over_tls(mut stream: TlsStream<TimedSocket>) -> Self {
        // What came so far was the handshake, and nothing of a request.
        stream.get_mut().0.has_news = false;
        Self::Tls(Box::new(stream))
    }

    /// Whether something has come that is not read yet from the socket.
    pub(crate) fn has_bytes(&self) -> bool {
        match self {
            Self::Plain(wire) => wire.has_bytes(),
            Self::Tls(stream) => stream.get_ref().0.has_bytes(),
        }
    }

    /// Whether something was read from the socket since this was last asked for. Under TLS that may be
    /// less than can be shown: a part of a record.
    pub(crate) fn take_news(&mut self) -> bool {
        let wire = match self {
            Self::Plain(wire) => wire,
            Self::Tls(stream) => stream.get_mut().0,
        };
        mem::take(&mut wire.has_news)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_read(context, buffer),
            Self::Tls(stream) => match Pin::new(&mut **stream).poll_read(context, buffer) {
                // The client ends its sending without saying so in TLS. Whether a request is whole is
                // seen in HTTP itself (RFC 9112, section 9.8).
                Poll::Ready(Err(cause)) if cause.kind() == ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                read => read,
            },
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_flush(context),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }
}
