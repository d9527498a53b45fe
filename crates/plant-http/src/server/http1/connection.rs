//! A connection on which the head of a request has to come in time, and on which nothing is done any
//! more after an answer that closes it.
//!
//! actix-http has a deadline for the first head of a connection, and one for the rest between two
//! requests, which ends as soon as a byte comes. A later head that begins and does not end has none:
//! it would hold the connection for ever.
//!
//! An answer to a request whose body was not read closes the connection, and so does one to a request
//! that asks for that. Nothing is done of what the client has sent behind it (RFC 9112, section 9.6).
//!
//! A client that takes nothing of an answer any more would hold the connection, and what is still to be
//! sent, for ever: it has a deadline too (in `transport`, where what TLS keeps back is seen).
//!
//! When the server ends, a connection at rest ends, but not before what has come on it is read:
//! actix-http's own signal for that would drop a request that has come and is not read yet.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::server::deadlines::DISCONNECT_DEADLINE;
use crate::server::http1::state::ConnectionState;
use crate::server::transport::Transport;

/// A transport whose client has to send each head in time.
pub(crate) struct Connection {
    transport: Transport,
    state: Rc<ConnectionState>,
    /// Ready when the connection is to end as soon as it rests; `None` after that.
    closing: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Wakes the connection when a head may be due. It is set anew only when it has gone off or is too
    /// late, so that it costs next to nothing to those who are in time.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Wakes the connection when the client has not let it be shut down; only while it does not.
    shutdown_alarm: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// A connection that is to end at rest when `closed` is there.
    pub(crate) fn new(transport: Transport, closed: impl Future<Output = ()> + 'static) -> Self {
        let state = Rc::new(ConnectionState::new());
        let waiting = Rc::clone(&state);
        let closing = Box::pin(async move {
            closed.await;
            waiting.grace_for_first_bytes().await;
        });
        Self { transport, state, closing: Some(closing), alarm: None, shutdown_alarm: None }
    }

    pub(crate) fn state(&self) -> Rc<ConnectionState> {
        Rc::clone(&self.state)
    }

    /// Whether the connection rests and is to end.
    fn is_to_end(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(closing) = &mut self.closing
            && closing.as_mut().poll(context).is_ready()
        {
            self.closing = None;
        }
        self.closing.is_none() && self.state.is_at_rest()
    }

    /// Ready when the head that is waited for is overdue.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(deadline) = self.state.deadline() {
            let alarm = match &mut self.alarm {
                Some(alarm) => alarm,
                None => self.alarm.insert(Box::pin(sleep_until(deadline))),
            };
            if alarm.deadline() > deadline {
                alarm.as_mut().reset(deadline);
            }
            match alarm.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if Instant::now() >= deadline => return Poll::Ready(()),
                Poll::Ready(()) => self.alarm = None,
            }
        }
        Poll::Pending
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let filled = buffer.filled().len();
        let read = Pin::new(&mut this.transport).poll_read(context, buffer);
        // TLS may have something that it cannot show yet, or show what it had.
        if this.transport.take_news() || buffer.filled().len() > filled {
            this.state.bytes_came();
        }
        if this.poll_overdue(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if read.is_pending() && this.is_to_end(context) && !this.transport.has_bytes() {
            // As if the client had ended its sending: nothing is lost by that.
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // After an answer this may be all that is called for long.
        if this.poll_overdue(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let flushed = Pin::new(&mut this.transport).poll_flush(context);
        // It ends where it is read from. What TLS still has to send wakes it up by itself, and would be
        // asked for again and again.
        if flushed.is_ready() && this.is_to_end(context) {
            context.waker().wake_by_ref();
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // TLS has a word to say, for which the client may leave no room.
        let shut = Pin::new(&mut this.transport).poll_shutdown(context);
        if shut.is_ready() {
            return shut;
        }
        let alarm = this.shutdown_alarm.get_or_insert_with(|| Box::pin(sleep(DISCONNECT_DEADLINE)));
        alarm.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::io::Write as _;
    use std::net;
    use std::os::unix;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use futures_util::FutureExt as _;
    use rustls::pki_types::CertificateDer;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;
    use tokio::time::timeout;
    use tokio_rustls::{TlsConnector, client};

    use crate::server::deadlines::ANSWER_IDLE_DEADLINE;
    use crate::server::http1::framing::BodyLength;
    use crate::server::tls::TlsCertificate;
    use crate::server::transport::{Incoming, TimedSocket};

    /// What closes a connection.
    fn close() -> (oneshot::Sender<()>, impl Future<Output = ()>) {
        let (close, closed) = oneshot::channel();
        (close, async move { closed.await.unwrap() })
    }

    /// Lets a connection rest after an answer.
    fn answer(connection: &Connection) {
        connection.state().request_begins(BodyLength::Bytes(0), false);
        connection.state().answer_ends();
    }

    /// A connection that rests after an answer, its client, and what closes it.
    async fn rest() -> (Connection, net::TcpStream, oneshot::Sender<()>) {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, address) = listener.accept().unwrap();
        let (close, closed) = close();
        let wire = TimedSocket::new(Incoming::Tcp(stream, address)).unwrap();
        let connection = Connection::new(Transport::Plain(wire), closed);
        answer(&connection);
        // The driver says that the socket can be written to, and maybe read from.
        yield_now().await;
        (connection, client, close)
    }

    /// A connection with TLS, its client, and what closes it.
    async fn connect_tls() -> (Connection, client::TlsStream<UnixStream>, oneshot::Sender<()>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let pem = certificate.pem();
        let served = TlsCertificate::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes());
        let served = served.unwrap();

        let (ours, theirs) = unix::net::UnixStream::pair().unwrap();
        let wire = TimedSocket::new(Incoming::Unix(ours)).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let theirs = UnixStream::from_std(theirs).unwrap();
        let connector = connector(certificate.der().clone());
        let name = "localhost".try_into().unwrap();
        let (transport, client) =
            tokio::join!(served.shake_hands(wire, pending()), connector.connect(name, theirs),);
        let (close, closed) = close();
        (Connection::new(transport.unwrap(), closed), client.unwrap(), close)
    }

    fn connector(root: CertificateDer<'static>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(root).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config).into()
    }

    /// Writes until neither the socket nor TLS takes any more.
    fn fill(connection: &mut Connection) {
        while connection.write(&[b'x'; 4096]).now_or_never().is_some() {}
    }

    #[tokio::test]
    async fn a_connection_at_rest_ends_when_it_is_to_close() {
        let (mut connection, _client, close) = rest().await;
        let mut bytes = [0; 16];
        assert!(connection.read(&mut bytes).now_or_never().is_none());
        close.send(()).unwrap();
        assert_eq!(connection.read(&mut bytes).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn what_came_before_the_close_is_read_also_where_the_driver_has_not_seen_it_yet() {
        let (mut connection, mut client, close) = rest().await;
        let mut bytes = [0; 16];
        assert!(connection.read(&mut bytes).now_or_never().is_none());
        client.write_all(b"GET").unwrap();
        close.send(()).unwrap();
        // The driver has no turn before this.
        assert_eq!(connection.read(&mut bytes).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn what_came_before_the_close_is_read_over_tls_as_well() {
        let (mut connection, mut client, close) = connect_tls().await;
        answer(&connection);
        let mut bytes = [0; 16];
        assert!(connection.read(&mut bytes).now_or_never().is_none());
        client.write_all(b"GET").await.unwrap();
        close.send(()).unwrap();
        assert_eq!(connection.read(&mut bytes).await.unwrap(), 3);
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_to_close_is_not_woken_again_and_again_while_its_answer_is_taken()
    {
        let (mut connection, mut client, close) = connect_tls().await;
        answer(&connection);
        fill(&mut connection);
        close.send(()).unwrap();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let context = &mut Context::from_waker(&waker);
        assert!(Pin::new(&mut connection).poll_flush(context).is_pending());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);

        let mut taken = vec![0; 1024 * 1024];
        while Pin::new(&mut connection).poll_flush(context).is_pending() {
            let _ = client.read(&mut taken).now_or_never();
            // The driver has a turn.
            yield_now().await;
        }
        let before = wakes.0.load(Ordering::Relaxed);
        assert!(Pin::new(&mut connection).poll_flush(context).is_ready());
        let after = wakes.0.load(Ordering::Relaxed);
        assert!(
            after > before,
            "it does not come to where it ends, which is where it is read from"
        );
    }

    #[tokio::test]
    async fn a_client_that_leaves_no_room_for_the_end_is_not_waited_for_as_one_that_takes_no_answer()
     {
        let (mut connection, _client, _close) = connect_tls().await;
        fill(&mut connection);
        let shut = timeout(ANSWER_IDLE_DEADLINE / 2, connection.shutdown()).await;
        let cause = shut.expect("it is waited for").unwrap_err();
        assert_eq!(cause.kind(), io::ErrorKind::TimedOut);
    }
}
