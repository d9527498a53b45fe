//! What a connection of a test travels over.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use socket2::SockRef;

/// A socket, with TLS on it or without.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(crate) fn socket(&self) -> SockRef<'_> {
        match self {
            Self::Tcp(stream) => stream.into(),
            Self::Unix(stream) => stream.into(),
            Self::Tls(stream) => (&stream.sock).into(),
        }
    }

    /// How long it may take to read or to write something.
    pub(crate) fn set_timeouts(&self, time: Duration) -> io::Result<()> {
        self.socket().set_read_timeout(Some(time))?;
        self.socket().set_write_timeout(Some(time))
    }

    /// Says that nothing more will be sent, in TLS too.
    pub(crate) fn finish_sending(&mut self) -> io::Result<()> {
        if let Self::Tls(stream) = self {
            stream.conn.send_close_notify();
            stream.flush()?;
        }
        self.socket().shutdown(Shutdown::Write)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer).map_err(|cause| match cause.kind() {
                // It is not the end that a server means which says nothing of it in TLS.
                ErrorKind::UnexpectedEof => ErrorKind::ConnectionAborted.into(),
                _ => cause,
            }),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
