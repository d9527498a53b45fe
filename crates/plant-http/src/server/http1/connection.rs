//! A connection as actix-http reads and writes it: one request at a time, each head within its deadline.
//!
//! A client may pipeline requests (RFC 9112, section 9.3.2). actix-http would read them ahead and encode each answer by
//! the head that it has read *last*: a HEAD behind a create removes the body of the create's answer but not its length,
//! so that the client takes the next answer for that body. So actix-http gets no byte of a request before the previous
//! request is answered, nothing behind an answer that closes the connection (section 9.6), no broken chunk, and no byte
//! of a head beyond its limits. `state.rs` decides what it may read; `ending.rs` decides when the server ends the
//! connection.
//!
//! When the server stops reading a head or a body, the client may still be sending. actix-http would close the socket
//! with unread bytes, which resets the connection, and a reset can destroy the answer. [`Connection::finish`] reads on
//! for a while instead.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use actix_http::StatusCode;
use actix_http::error::DispatchError;
use actix_http::header::HttpDate;
use actix_web::web::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use crate::server::deadlines::DISCONNECT_DEADLINE;
use crate::server::http1::ending::Ending;
use crate::server::http1::reading::Reading;
use crate::server::http1::state::{ConnectionState, Turn};
use crate::server::transport::{Transport, socket_of};

/// The size of reads outside of a request.
const AHEAD_BYTES: usize = 8 * 1024;

/// A handle to a connection: actix-http has one while it serves, and another one finishes the connection.
#[derive(Clone)]
pub(crate) struct Connection(Rc<RefCell<Inner>>);

struct Inner {
    transport: Transport,
    state: Rc<ConnectionState>,
    ending: Ending,
    /// Bytes that were read before their turn.
    ahead: BytesMut,
    /// Wakes the connection when the client blocks its shutdown. Set only while it does.
    shutdown_alarm: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// A connection. Once `closed` is ready, the connection ends as soon as it is idle.
    pub(super) fn new(transport: Transport, closed: impl Future<Output = ()> + 'static) -> Self {
        let state = Rc::new(ConnectionState::default());
        Self(Rc::new(RefCell::new(Inner {
            transport,
            ending: Ending::new(&state, closed),
            state,
            ahead: BytesMut::new(),
            shutdown_alarm: None,
        })))
    }

    pub(super) fn state(&self) -> Rc<ConnectionState> {
        Rc::clone(&self.0.borrow().state)
    }

    /// Answers a head that is over a limit. If the client may still be sending, reads on for a while, so that the
    /// answer is not lost. `served` is actix-http's result.
    pub(super) async fn finish(mut self, served: &Result<(), DispatchError>) {
        let reading = self.state().reading.replace(Reading::Endless);
        let answer = match (served, reading) {
            // actix-http has answered 400 or 431.
            (Err(DispatchError::Parse(_)), _) | (Ok(()), Reading::BrokenBody) => String::new(),
            (Ok(()), Reading::LongHead(status)) => answer_to_long_head(status),
            _ => return,
        };
        if self.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        // The connection closes in any case.
        let _ = timeout(DISCONNECT_DEADLINE, async {
            self.shutdown().await?;
            poll_fn(|context| self.0.borrow_mut().poll_discard(context)).await
        })
        .await;
    }
}

/// An answer without a body, like actix-http's to heads that it refuses.
fn answer_to_long_head(status: StatusCode) -> String {
    let date = HttpDate::from(SystemTime::now());
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\ndate: {date}\r\n\r\n")
}

impl Inner {
    /// Reads what actix-http may read now.
    fn poll_request(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.state.turn() {
            Turn::Take => self.poll_take(context, buffer),
            Turn::Wait => self.poll_ahead(context),
            Turn::End => Poll::Ready(Ok(())),
            Turn::Discard { is_request_whole } => match self.poll_discard(context) {
                Poll::Pending if is_request_whole => Poll::Ready(Ok(())),
                discarded => discarded,
            },
        }
    }

    /// Reads the next bytes of a request.
    fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            let begin = buffer.filled().len();
            ready!(self.poll_transport(context, buffer))?;
            let end = begin + self.state.take(&mut buffer.filled_mut()[begin..]);
            self.put_back(&buffer.filled()[end..]);
            buffer.set_filled(end);
        } else {
            let length = self.ahead.len().min(buffer.remaining());
            let taken = self.state.take(&mut self.ahead[..length]);
            buffer.put_slice(&self.ahead[..taken]);
            self.ahead.advance(taken);
            self.state.has_ahead.set(!self.ahead.is_empty());
            self.state.bytes_came();
        }
        Poll::Ready(Ok(()))
    }

    /// Reads bytes whose turn has not come, so that an error or the end of the connection is noticed. Ready only with an
    /// error.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [MaybeUninit::uninit(); AHEAD_BYTES];
        while self.ahead.len() < AHEAD_BYTES {
            let mut buffer = ReadBuf::uninit(&mut bytes);
            match self.poll_transport(context, &mut buffer) {
                // Nothing is there that could wake the task later.
                Poll::Pending if self.ahead.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(read) => read?,
            }
            if buffer.filled().is_empty() {
                break;
            }
            self.put_back(buffer.filled());
        }
        if self.ahead.len() >= AHEAD_BYTES {
            // The end of input stands behind bytes that are not read, so nothing would tell that the client has gone.
            self.state.client_leaves();
        }
        // Wakes also a connection whose client has stopped sending: the end of input is read again later.
        self.state.reader.set(Some(context.waker().clone()));
        Poll::Pending
    }

    /// Keeps bytes for their turn, behind those that are kept already.
    fn put_back(&mut self, bytes: &[u8]) {
        self.ahead.extend_from_slice(bytes);
        self.state.has_ahead.set(!self.ahead.is_empty());
    }

    /// Reads and discards bytes. Ready at the end of the connection.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [MaybeUninit::uninit(); AHEAD_BYTES];
        loop {
            let mut buffer = ReadBuf::uninit(&mut bytes);
            ready!(self.poll_transport(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Reads the bytes that have arrived, unless a head is overdue. On an idle connection that is to end, returns the
    /// end of input.
    fn poll_transport(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = match Pin::new(&mut self.transport).poll_read(context, buffer) {
            // The client stopped sending without saying so in TLS. HTTP itself shows whether a request is whole
            // (RFC 9112, section 9.8).
            Poll::Ready(Err(cause)) if cause.kind() == ErrorKind::UnexpectedEof => {
                Poll::Ready(Ok(()))
            }
            read => read,
        };
        if read.is_ready() && buffer.filled().len() == filled {
            // The end of input, or an error.
            self.state.client_leaves();
        }
        // TLS may have read a part of a record, or return bytes that it had buffered.
        let has_news = mem::take(&mut socket_of(&mut self.transport).has_news);
        if has_news || buffer.filled().len() > filled {
            self.state.bytes_came();
        }
        if self.ending.poll_overdue(context).is_ready() {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        if read.is_pending()
            && self.ending.is_due(context)
            && !socket_of(&mut self.transport).has_bytes()
        {
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_request(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let inner = &mut *self.0.borrow_mut();
        let written = Pin::new(&mut inner.transport).poll_write(context, bytes);
        if let Poll::Ready(Err(cause)) = &written
            && cause.kind() == ErrorKind::TimedOut
        {
            inner.state.client_stalls();
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = &mut *self.0.borrow_mut();
        // After an answer, actix-http may call nothing else for long.
        if inner.ending.poll_overdue(context).is_ready() {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        let flushed = Pin::new(&mut inner.transport).poll_flush(context);
        // The connection ends in a read, so actix-http must read once more. While TLS still has bytes to send, it
        // wakes the task by itself, and waking it here as well would spin.
        if flushed.is_ready() && inner.ending.is_due(context) {
            context.waker().wake_by_ref();
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = &mut *self.0.borrow_mut();
        if let Reading::LongHead(_) = *inner.state.reading.borrow() {
            // The answer is still to be written.
            return Poll::Ready(Ok(()));
        }
        let shut = Pin::new(&mut inner.transport).poll_shutdown(context);
        if shut.is_ready() {
            return shut;
        }
        // TLS has an alert to send, for which the socket's buffer may have no room.
        let alarm =
            inner.shutdown_alarm.get_or_insert_with(|| Box::pin(sleep(DISCONNECT_DEADLINE)));
        alarm.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::os::unix;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use futures_util::FutureExt as _;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;
    use tokio_rustls::{TlsConnector, client};
    use tokio_util::either::Either;

    use crate::server::deadlines::ANSWER_IDLE_DEADLINE;
    use crate::server::http1::framing::BodyLength;
    use crate::server::tls::TlsCertificate;
    use crate::server::transport::TimedSocket;

    /// A connection with TLS that is idle after an answer, its client, and what closes the connection.
    async fn idle() -> (Connection, client::TlsStream<UnixStream>, oneshot::Sender<()>) {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (chain, key) = (issued.cert.pem(), issued.signing_key.serialize_pem());
        let certificate = TlsCertificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(issued.cert.der().clone()).unwrap();
        let config =
            ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();

        let (server, client) = unix::net::UnixStream::pair().unwrap();
        let server = TimedSocket::new(server.into()).unwrap();
        client.set_nonblocking(true).unwrap();
        let client = UnixStream::from_std(client).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let (transport, client) = tokio::join!(
            certificate.shake_hands(server, pending()),
            connector.connect("localhost".try_into().unwrap(), client)
        );
        let (close, closed) = oneshot::channel();
        let closed = async move { closed.await.unwrap() };
        let connection = Connection::new(Either::Right(transport.unwrap()), closed);
        connection.state().request_begins(BodyLength::Bytes(0), false);
        connection.state().answer_ends();
        (connection, client.unwrap(), close)
    }

    /// Writes until neither the socket nor TLS accepts more bytes.
    fn fill(connection: &mut Connection) {
        while connection.write(&[b'x'; 4096]).now_or_never().is_some() {}
    }

    #[tokio::test]
    async fn what_arrived_before_the_close_is_read_before_the_runtime_has_heard_of_it() {
        let (mut connection, mut client, close) = idle().await;
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
    async fn a_connection_that_is_to_close_does_not_spin_while_the_client_reads_its_answer() {
        let (mut connection, mut client, close) = idle().await;
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
            // Gives the runtime's driver a turn.
            yield_now().await;
        }
        let before = wakes.0.load(Ordering::Relaxed);
        assert!(Pin::new(&mut connection).poll_flush(context).is_ready());
        let after = wakes.0.load(Ordering::Relaxed);
        assert!(after > before, "the connection is not read again, which is where it ends");
    }

    #[tokio::test]
    async fn a_client_that_blocks_the_shutdown_has_the_deadline_of_a_disconnect() {
        let (mut connection, _client, _close) = idle().await;
        fill(&mut connection);
        let shut = timeout(ANSWER_IDLE_DEADLINE / 2, connection.shutdown()).await;
        let cause = shut.expect("it has the deadline of an answer").unwrap_err();
        assert_eq!(cause.kind(), ErrorKind::TimedOut);
    }
}
