//! The transport of a connection: a TCP or a Unix socket, with TLS or without.
//!
//! TLS buffers in both directions. Deadlines and the drain depend on what happens on the socket below TLS, so
//! [`TimedSocket`] watches the socket: whether the client reads anything, and whether anything has arrived, even
//! less than a whole TLS record.

use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::server::deadlines::ANSWER_IDLE_DEADLINE;

/// How many unsent bytes the operating system takes for a client, about: otherwise, it takes megabytes for one that does not
/// read, which count as memory of this service. Bytes on their way do not count, so fast clients are not slower.
#[cfg(target_os = "linux")]
const UNSENT_MAX_BYTES: u32 = 128 * 1024;

/// A plain socket, or TLS over one. The TLS stream is boxed because it is large and most connections have none.
pub(super) type Transport = Either<TimedSocket, Box<TlsStream<TimedSocket>>>;

/// The socket below TLS, where there is TLS.
pub(super) fn socket_of(transport: &mut Transport) -> &mut TimedSocket {
    match transport {
        Either::Left(socket) => socket,
        Either::Right(stream) => stream.get_mut().0,
    }
}

/// A socket that fails when the client reads none of the written bytes for [`ANSWER_IDLE_DEADLINE`]. TLS reports
/// bytes as written that it has only buffered, so a stalled client cannot be noticed above TLS.
pub(super) struct TimedSocket {
    socket: Either<TcpStream, UnixStream>,
    /// Wakes the connection when the client has stalled for too long. Set only while writing is blocked.
    stall_alarm: Option<Pin<Box<Sleep>>>,
    /// Whether bytes have arrived since the owner last reset this.
    pub(super) has_news: bool,
}

impl TimedSocket {
    /// Registers a socket with the runtime of this thread.
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = if socket.local_addr()?.is_unix() {
            Either::Right(UnixStream::from_std(socket.into())?)
        } else {
            // A response is written in one piece, so Nagle's algorithm would only delay its end.
            socket.set_tcp_nodelay(true)?;
            #[cfg(target_os = "linux")]
            socket.set_tcp_notsent_lowat(UNSENT_MAX_BYTES)?;
            Either::Left(TcpStream::from_std(socket.into())?)
        };
        Ok(Self { socket, stall_alarm: None, has_news: false })
    }

    /// Whether bytes have arrived that are not read yet. A pending read does not prove that there are none: the
    /// runtime does not know of new bytes until its driver has polled the socket.
    pub(super) fn has_bytes(&self) -> bool {
        let socket = match &self.socket {
            Either::Left(stream) => SockRef::from(stream),
            Either::Right(stream) => SockRef::from(stream),
        };
        socket.peek(&mut [MaybeUninit::uninit()]).is_ok_and(|bytes| bytes > 0)
    }

    /// The result of a write, or an error when the client has stalled for too long.
    fn unless_stalled(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stall_alarm = None;
            return written;
        }
        let alarm = self.stall_alarm.get_or_insert_with(|| Box::pin(sleep(ANSWER_IDLE_DEADLINE)));
        alarm.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        self.has_news |= buffer.filled().len() > filled;
        read
    }
}

impl AsyncWrite for TimedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.unless_stalled(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.unless_stalled(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_system_takes_little_for_a_client_that_does_not_read() {
        const MOST_BYTES: usize = 1024 * 1024;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(connected, listener.accept());
        let client = client.unwrap();
        SockRef::from(&client).set_recv_buffer_size(4096).unwrap();
        let socket: std::net::TcpStream = accepted.unwrap().0.into_std().unwrap();
        let mut socket = TimedSocket::new(socket.into()).unwrap();
        let mut taken = 0;
        while let Ok(written) =
            timeout(ANSWER_IDLE_DEADLINE / 40, socket.write(&[0; 16 * 1024])).await
        {
            taken += written.unwrap();
            assert!(taken < MOST_BYTES, "the system takes more and more");
        }
        assert!(taken > 0, "the system takes nothing");
    }
}
