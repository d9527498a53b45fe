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

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::server::http1::framing::BodyLength;
use crate::server::http1::pipeline::Turn;
use crate::server::transport::Transport;

/// How long the head of a request may take to arrive: the first one from the connection on, a later
/// one from its first byte on. A TLS handshake may take as long, before the first.
pub(crate) const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection may rest between two requests.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// How long a client may take to close a connection that we have closed, and to send what nobody reads.
pub(crate) const DISCONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// How long a client that had connected before the server took no more may take to send its first bytes,
/// and before that to come to the end of its TLS handshake.
pub(crate) const FIRST_BYTES_GRACE: Duration = Duration::from_millis(500);

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

/// What a connection waits for.
#[derive(Clone, Copy)]
enum Waiting {
    /// The first bytes. Their deadline is that of the first head.
    ForFirstBytes,
    /// The rest of its first head, or the end of an answer: both have deadlines of their own.
    Elsewhere,
    /// The next request, since then.
    ForRequest(Instant),
    /// The end of a head that began then.
    ForHead(Instant),
}

/// Told by the exchanges of a connection, and asked by the connection.
pub(crate) struct ConnectionState {
    waiting: Cell<Waiting>,
    turn: Turn,
    has_unread_body: Cell<bool>,
    is_closing: Cell<bool>,
}

impl ConnectionState {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Cell::new(Waiting::ForFirstBytes),
            turn: Turn::new(),
            has_unread_body: Cell::new(false),
            is_closing: Cell::new(false),
        }
    }

    /// A request begins, which may ask for the end of the connection.
    pub(crate) fn request_begins(&self, body: BodyLength, is_last: bool) {
        self.waiting.set(Waiting::Elsewhere);
        self.has_unread_body.set(body != BodyLength::Bytes(0));
        self.is_closing.set(is_last);
        self.turn.request_begins(body);
    }

    pub(crate) fn body_was_read(&self) {
        self.has_unread_body.set(false);
    }

    /// An answer begins, which may say itself that it is the last. In the drain it is where nothing of
    /// another request has come.
    pub(crate) fn answer_begins(&self, is_last: bool, drains: bool) {
        let is_at_end = drains && !self.turn.has_ahead();
        if is_last || is_at_end || self.has_unread_body.get() {
            self.is_closing.set(true);
        }
    }

    pub(crate) fn answer_ends(&self) {
        self.waiting.set(Waiting::ForRequest(Instant::now()));
        self.turn.answer_ends();
    }

    /// What decides when the next request is read.
    pub(crate) const fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Whether the connection ends with the answer to this request.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// Bytes came, or have their turn now.
    pub(crate) fn bytes_came(&self) {
        match self.waiting.get() {
            Waiting::ForFirstBytes => self.waiting.set(Waiting::Elsewhere),
            // Nobody reads them.
            Waiting::ForRequest(_) if self.is_closing.get() => {}
            Waiting::ForRequest(_) => self.waiting.set(Waiting::ForHead(Instant::now())),
            Waiting::Elsewhere | Waiting::ForHead(_) => {}
        }
    }

    /// Whether nothing of a request has come to which no answer was given.
    fn is_at_rest(&self) -> bool {
        let waiting = self.waiting.get();
        // After an answer that closes it, the connection ends by itself when the client has got that.
        !self.is_closing.get() && matches!(waiting, Waiting::ForFirstBytes | Waiting::ForRequest(_))
    }

    async fn grace_for_first_bytes(&self) {
        if let Waiting::ForFirstBytes = self.waiting.get() {
            sleep(FIRST_BYTES_GRACE).await;
        }
    }

    /// Until when something has to come from the client, if it is the client's turn.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.waiting.get() {
            Waiting::ForFirstBytes | Waiting::Elsewhere => None,
            // Nothing is read from it any more.
            Waiting::ForRequest(since) if self.is_closing.get() => {
                Some(since + DISCONNECT_DEADLINE)
            }
            // actix-http ends the rest itself, unless it cannot get rid of the answer.
            Waiting::ForRequest(since) => Some(since + KEEP_ALIVE + HEAD_DEADLINE),
            Waiting::ForHead(since) => Some(since + HEAD_DEADLINE),
        }
    }
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

    use crate::server::tls::TlsCertificate;
    use crate::server::transport::{ANSWER_IDLE_DEADLINE, Incoming, Wire};

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
        let wire = Wire::new(Incoming::Tcp(stream, address)).unwrap();
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
        let wire = Wire::new(Incoming::Unix(ours)).unwrap();
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
