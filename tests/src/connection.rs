//! Bytes as they stand, on one connection: for what well-behaved clients do not send.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::answer::Answer;
use crate::deadline::DEADLINE;
use crate::launch::TOKEN;

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// What has arrived and belongs to no answer yet.
    received: Vec<u8>,
}

impl Connection {
    /// A new connection.
    ///
    /// # Panics
    ///
    /// When the server takes none.
    #[must_use]
    #[track_caller]
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).unwrap_or_else(|cause| panic!("no connection: {cause}"))
    }

    /// As [`Self::open`], for a server that may take no more connections.
    ///
    /// # Errors
    ///
    /// When the server takes none.
    pub fn try_open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends bytes.
    ///
    /// # Panics
    ///
    /// When the server does not take them.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap_or_else(|cause| panic!("cannot send: {cause}"));
    }

    /// As [`Self::send`], for a server that may have closed the connection.
    ///
    /// # Errors
    ///
    /// When the server does not take them.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends bytes, each in a packet of its own.
    #[track_caller]
    pub fn send_byte_by_byte(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref().chunks(1) {
            self.send(byte);
        }
    }

    /// Receives the next answer.
    ///
    /// # Panics
    ///
    /// When none comes.
    #[track_caller]
    pub fn receive(&mut self) -> Answer {
        self.try_receive().unwrap_or_else(|cause| panic!("no answer: {cause}"))
    }

    /// Receives the next answer, which is one to HEAD, and so has no body whatever its head says.
    ///
    /// # Panics
    ///
    /// When none comes.
    #[track_caller]
    pub fn receive_head(&mut self) -> Answer {
        self.try_receive_head().unwrap_or_else(|cause| panic!("no answer: {cause}"))
    }

    /// As [`Self::receive`], for a server that may be gone.
    ///
    /// # Errors
    ///
    /// When none comes.
    pub fn try_receive(&mut self) -> io::Result<Answer> {
        let mut answer = self.try_receive_head()?;
        if answer.status < 200 || answer.status == 204 || answer.status == 304 {
            return Ok(answer);
        }
        let length = match answer.header("content-length").map(str::parse) {
            Some(Ok(length)) => length,
            other => return Err(io::Error::other(format!("body length {other:?}: {answer:?}"))),
        };
        while self.received.len() < length {
            self.receive_some()?;
        }
        answer.body = self.received.drain(..length).collect();
        Ok(answer)
    }

    fn try_receive_head(&mut self) -> io::Result<Answer> {
        const END: &[u8] = b"\r\n\r\n";
        let end = loop {
            if let Some(at) = self.received.windows(END.len()).position(|bytes| bytes == END) {
                break at + END.len();
            }
            self.receive_some()?;
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let broken = || io::Error::other(format!("a broken head: {head:?}"));
        let mut lines = head.trim_end().split("\r\n");
        let status = lines
            .next()
            .filter(|line| line.starts_with("HTTP/1."))
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .ok_or_else(broken)?;
        let headers = lines
            .map(|line| {
                let (name, value) = line.split_once(':').ok_or_else(broken)?;
                Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
            })
            .collect::<io::Result<_>>()?;
        Ok(Answer { status, headers, body: Vec::new() })
    }

    fn receive_some(&mut self) -> io::Result<()> {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            length => {
                self.received.extend_from_slice(&buffer[..length]);
                Ok(())
            }
        }
    }

    /// Claims that nothing comes for a while. It is no proof, so it must not be all that a test
    /// looks at.
    ///
    /// # Panics
    ///
    /// When something came.
    #[track_caller]
    pub fn assert_silent_for(&mut self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).expect("a time that is not zero");
        let result = self.receive_some();
        self.stream.set_read_timeout(Some(DEADLINE)).expect("a time that is not zero");
        let received = String::from_utf8_lossy(&self.received);
        match result {
            Err(cause) if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            other => panic!("{other:?} {received:?} came where nothing should"),
        }
    }

    /// Waits until the server closes the connection, and claims that nothing more came.
    ///
    /// # Panics
    ///
    /// When something came, or the server keeps the connection.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        let result = self.receive_some();
        let received = String::from_utf8_lossy(&self.received);
        match result {
            Err(cause)
                if matches!(
                    cause.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) => {}
            other => panic!("{other:?} {received:?} came where the connection should be closed"),
        }
    }

    /// Says that nothing more will be sent. What the server sends can still be received.
    ///
    /// # Panics
    ///
    /// When the connection is gone.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
    }

    /// Waits until the server closes the connection, whatever it sends before.
    ///
    /// # Panics
    ///
    /// When the server keeps the connection.
    #[track_caller]
    pub fn wait_for_close(&mut self) {
        loop {
            match self.receive_some() {
                Ok(()) => {}
                Err(cause)
                    if matches!(
                        cause.kind(),
                        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                    ) =>
                {
                    return;
                }
                Err(cause) => panic!("the server keeps the connection: {cause}"),
            }
        }
    }

    /// Closes the connection so that what is under way on it is lost.
    ///
    /// # Panics
    ///
    /// When the socket has no such option.
    pub fn reset(self) {
        SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .expect("a TCP socket can linger");
    }
}

/// A whole create request, byte for byte.
#[must_use]
pub fn create_request(body: &str) -> String {
    format!(
        "POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
