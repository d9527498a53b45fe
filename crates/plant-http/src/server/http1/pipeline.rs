//! One request at a time.
//!
//! A client may send requests without waiting for the answers (RFC 9112, section 9.3.2). actix-http reads
//! them ahead, and writes each answer by what the head says that it has read *last*: behind a create, a
//! HEAD takes the body out of the create's answer, whose length stays, so that the client takes the next
//! answer for that body; a request of HTTP/1.0 changes its version; and a `Connection: close` is
//! forgotten. Where a chunk is broken, it ends the connection without the answers that are still to come.
//!
//! So it gets no byte of a request before the one before it is answered, nothing behind an answer that
//! closes the connection (section 9.6), no chunk that is broken, and nothing of a head beyond its limits.
//!
//! Where a head or a body cannot be read any further, the client may still be sending. actix-http would close
//! the connection while unread bytes are there. That resets it, and a reset can take the answer from the client.
//! So [`Ending`] keeps the stream, and reads on for a while.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use actix_http::StatusCode;
use actix_http::error::DispatchError;
use actix_http::header::HttpDate;
use actix_web::web::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

use crate::server::deadlines::DISCONNECT_DEADLINE;
use crate::server::http1::framing::BodyLength;
use crate::server::http1::request_end::{ChunksEnd, Found, HeadEnd};
use crate::server::http1::state::{BrokenOff, ConnectionState};

/// How much is read at a time of what has no turn yet.
const AHEAD_BYTES: usize = 8 * 1024;

/// A connection's stream, read request by request.
pub(crate) struct Pipeline<Stream> {
    stream: Rc<RefCell<Stream>>,
    connection: Rc<ConnectionState>,
    reading: Reading,
    /// What was read, and has to wait for its turn.
    ahead: BytesMut,
}

/// What the next byte belongs to.
enum Reading {
    Head(HeadEnd),
    /// What comes behind a head. It is known when the exchange begins.
    BehindHead,
    /// So many more bytes of a body.
    Bytes(u64),
    Chunks(ChunksEnd),
    /// A head or a body that cannot be read any further.
    BrokenOff(BrokenOff),
    /// What nobody reads: the answer closes the connection.
    Endless,
    /// The next request, when this one is answered.
    Next,
}

impl Reading {
    fn body(length: BodyLength) -> Self {
        match length {
            BodyLength::Bytes(0) => Self::Next,
            BodyLength::Bytes(length) => Self::Bytes(length),
            BodyLength::Chunks => Self::Chunks(ChunksEnd::default()),
            BodyLength::Endless => Self::Endless,
        }
    }

    /// How many of these bytes, at their beginning, may be read now.
    fn take(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Head(head) => match head.find(bytes) {
                Found::More => bytes.len(),
                Found::End(end) => {
                    *self = Self::BehindHead;
                    end
                }
                Found::Broken(end) => {
                    // RFC 9112, section 3, and RFC 6585, section 5.
                    *self = Self::BrokenOff(BrokenOff::Head(if head.is_in_request_line() {
                        StatusCode::URI_TOO_LONG
                    } else {
                        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
                    }));
                    end
                }
            },
            Self::Bytes(missing) => match usize::try_from(*missing) {
                Ok(end) if end <= bytes.len() => {
                    *self = Self::Next;
                    end
                }
                _ => {
                    // It is more than that.
                    *missing -= u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    bytes.len()
                }
            },
            Self::Chunks(chunks) => match chunks.find(bytes) {
                Found::More => bytes.len(),
                Found::End(end) => {
                    *self = Self::Next;
                    end
                }
                Found::Broken(end) => {
                    *self = Self::BrokenOff(BrokenOff::Body);
                    end
                }
            },
            Self::BehindHead | Self::BrokenOff(_) | Self::Endless | Self::Next => 0,
        }
    }
}

impl<Stream> Pipeline<Stream> {
    pub(crate) fn new(stream: Stream, connection: Rc<ConnectionState>) -> Self {
        let reading = Reading::Head(HeadEnd::default());
        let stream = Rc::new(RefCell::new(stream));
        Self { stream, connection, reading, ahead: BytesMut::new() }
    }

    /// What ends the connection when actix-http is through with it.
    pub(crate) fn ending(&self) -> Ending<Stream> {
        Ending { stream: Rc::clone(&self.stream), connection: Rc::clone(&self.connection) }
    }

    pub(crate) fn connection(&self) -> &Rc<ConnectionState> {
        &self.connection
    }

    /// Goes on to what has its turn by now.
    fn go_on(&mut self) {
        let turn = self.connection.turn();
        if let Reading::BehindHead = self.reading
            && let Some(length) = turn.body.take()
        {
            self.reading = Reading::body(length);
        }
        if let Reading::Next = self.reading
            && turn.is_answered.get()
            && !self.connection.is_closing()
        {
            self.reading = Reading::Head(HeadEnd::default());
        }
    }

    /// Whether the last answer was given that there is on this connection.
    fn is_over(&self) -> bool {
        self.connection.turn().is_answered.get() && self.connection.is_closing()
    }
}

impl<Stream: AsyncRead + Unpin> Pipeline<Stream> {
    /// Reads what has no turn yet, so that an error of the connection is noticed. Ready only with such an error.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            let mut bytes = [MaybeUninit::uninit(); AHEAD_BYTES];
            let mut buffer = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut *self.stream.borrow_mut()).poll_read(context, &mut buffer))?;
            self.put_back(buffer.filled());
        }
        // Also where the client has ended its sending, which is read again then.
        self.connection.turn().waiting.set(Some(context.waker().clone()));
        Poll::Pending
    }

    /// Reads what has come and forgets it. Ready at the end of the connection.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [MaybeUninit::uninit(); AHEAD_BYTES];
        loop {
            let mut buffer = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut *self.stream.borrow_mut()).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Keeps bytes for their turn, where nothing is kept yet.
    fn put_back(&mut self, bytes: &[u8]) {
        self.ahead.extend_from_slice(bytes);
        self.connection.turn().has_ahead.set(!self.ahead.is_empty());
    }
}

impl<Stream: AsyncRead + Unpin> AsyncRead for Pipeline<Stream> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.go_on();
        match this.reading {
            // As if the client had ended its sending: what was asked is answered, and the connection ends.
            Reading::BrokenOff(_) => return Poll::Ready(Ok(())),
            Reading::Next | Reading::Endless if this.is_over() => {
                let discarded = this.poll_discard(context);
                return match this.reading {
                    // All was read that there was to be read.
                    Reading::Next if discarded.is_pending() => Poll::Ready(Ok(())),
                    // The client may still be sending, and would miss the answer.
                    _ => discarded,
                };
            }
            Reading::BehindHead | Reading::Endless | Reading::Next => {
                return this.poll_ahead(context);
            }
            Reading::Head(_) | Reading::Bytes(_) | Reading::Chunks(_) => {}
        }
        if this.ahead.is_empty() {
            let begin = buffer.filled().len();
            ready!(Pin::new(&mut *this.stream.borrow_mut()).poll_read(context, buffer))?;
            let end = begin + this.reading.take(&buffer.filled()[begin..]);
            this.put_back(&buffer.filled()[end..]);
            buffer.set_filled(end);
        } else {
            let length = this.ahead.len().min(buffer.remaining());
            let taken = this.reading.take(&this.ahead[..length]);
            buffer.put_slice(&this.ahead[..taken]);
            this.ahead.advance(taken);
            this.connection.turn().has_ahead.set(!this.ahead.is_empty());
            this.connection.bytes_came();
        }
        if let Reading::BrokenOff(broken_off) = this.reading {
            this.connection.turn().broken_off.set(Some(broken_off));
        }
        Poll::Ready(Ok(()))
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for Pipeline<Stream> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(BrokenOff::Head(_)) = self.connection.turn().broken_off.get() {
            // The answer is still to be written.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(context)
    }
}

/// What ends a connection when actix-http is through with it.
pub(crate) struct Ending<Stream> {
    stream: Rc<RefCell<Stream>>,
    connection: Rc<ConnectionState>,
}

impl<Stream: AsyncRead + AsyncWrite + Unpin> Ending<Stream> {
    /// Answers a head that is over a limit, and lets a client finish its sending whose request was refused
    /// before all of it was read. `served` is what came of serving the connection.
    pub(crate) async fn end(self, served: &Result<(), DispatchError>) {
        let answer = match (served, self.connection.turn().broken_off.get()) {
            // actix-http has answered 400 or 431.
            (Err(DispatchError::Parse(_)), _) | (Ok(()), Some(BrokenOff::Body)) => String::new(),
            (Ok(()), Some(BrokenOff::Head(status))) => answer_to_long_head(status),
            _ => return,
        };
        let Some(stream) = Rc::into_inner(self.stream) else { return };
        let mut stream = stream.into_inner();
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        // The connection is closed in any case.
        let _ = timeout(DISCONNECT_DEADLINE, async {
            stream.shutdown().await?;
            let mut bytes = [0; AHEAD_BYTES];
            while stream.read(&mut bytes).await? > 0 {}
            io::Result::Ok(())
        })
        .await;
    }
}

/// Without a body, as the answers of actix-http to heads that it refuses.
fn answer_to_long_head(status: StatusCode) -> String {
    let date = HttpDate::from(SystemTime::now());
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\ndate: {date}\r\n\r\n")
}
