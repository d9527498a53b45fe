//! A connection on which the head of a request has to come in time.
//!
//! actix-http has a deadline for the first head of a connection, and one for the rest between two
//! requests, which ends as soon as a byte comes. A later head that begins and does not end has none:
//! it would hold the connection for ever.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::rt::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long the head of a request may take to arrive: the first one from the connection on, a later
/// one from its first byte on.
pub(crate) const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection may rest between two requests.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(60);

pub(crate) struct Connection {
    stream: TcpStream,
    clock: Rc<HeadClock>,
    /// Wakes the connection when a head may be due. It is set anew only when it has gone off, so that
    /// it costs nothing to those who are in time.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// What a connection waits for.
#[derive(Clone, Copy)]
enum Waiting {
    /// Its first head, or the end of an answer: both have deadlines of their own.
    Elsewhere,
    /// The next request, since then.
    ForRequest(Instant),
    /// The end of a head that began then.
    ForHead(Instant),
}

/// Told by the exchanges of a connection, and asked by the connection.
pub(crate) struct HeadClock(Cell<Waiting>);

impl HeadClock {
    pub(crate) fn request_begins(&self) {
        self.0.set(Waiting::Elsewhere);
    }

    pub(crate) fn request_ends(&self) {
        self.0.set(Waiting::ForRequest(Instant::now()));
    }

    fn bytes_came(&self) {
        if let Waiting::ForRequest(_) = self.0.get() {
            self.0.set(Waiting::ForHead(Instant::now()));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.0.get() {
            Waiting::Elsewhere => None,
            // The head may have begun in the bytes that came with the last request.
            Waiting::ForRequest(since) => Some(since + KEEP_ALIVE + HEAD_DEADLINE),
            Waiting::ForHead(since) => Some(since + HEAD_DEADLINE),
        }
    }
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let clock = Rc::new(HeadClock(Cell::new(Waiting::Elsewhere)));
        Self { stream, clock, alarm: None }
    }

    pub(crate) fn clock(&self) -> Rc<HeadClock> {
        Rc::clone(&self.clock)
    }

    /// Ready when the head that is waited for is overdue.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(deadline) = self.clock.deadline() {
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
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if buffer.filled().len() > filled {
            this.clock.bytes_came();
        }
        if this.poll_overdue(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
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
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
