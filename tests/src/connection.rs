//! Bytes as they stand, on one connection: for what well-behaved clients do not send. The connection may
//! have TLS; then the server has to say there that it ends, or it did not mean to.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};

use crate::answer::Answer;
use crate::deadline::DEADLINE;
use crate::launch::TOKEN;
use crate::stream::Stream;

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
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
        Self::over(Stream::Tcp(connect(address)?))
    }

    /// A new connection to a Unix socket.
    ///
    /// # Errors
    ///
    /// When the server takes none.
    pub fn open_unix(path: &Path) -> io::Result<Self> {
        Self::over(Stream::Unix(UnixStream::connect(path)?))
    }

    /// A new connection with TLS, after the handshake.
    ///
    /// # Errors
    ///
    /// When the server takes none, or the handshake fails.
    ///
    /// # Panics
    ///
    /// When the client cannot be used at all.
    pub fn open_tls(address: SocketAddr, client: &Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::from(address.ip());
        let session = ClientConnection::new(Arc::clone(client), name).expect("a client");
        let stream = Box::new(StreamOwned::new(session, connect(address)?));
        let mut connection = Self::over(Stream::Tls(stream))?;
        let stream = connection.tls();
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(connection)
    }

    fn over(stream: Stream) -> io::Result<Self> {
        stream.set_timeouts(DEADLINE)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// What TLS says of this connection.
    #[track_caller]
    fn tls(&mut self) -> &mut StreamOwned<ClientConnection, TcpStream> {
        match &mut self.stream {
            Stream::Tls(stream) => stream,
            other => panic!("{other:?} has no TLS"),
        }
    }

    /// The certificate that the server showed, and whether it showed it now, or at an earlier handshake
    /// that went on in this one.
    ///
    /// # Panics
    ///
    /// When the connection has no TLS.
    #[must_use]
    #[track_caller]
    pub fn certificate(&mut self) -> (CertificateDer<'static>, bool) {
        let session = &self.tls().conn;
        let shown = session.peer_certificates().and_then(|chain| chain.first());
        let is_new = session.handshake_kind() != Some(HandshakeKind::Resumed);
        (shown.expect("the server showed one").clone(), is_new)
    }

    /// The version of TLS and the protocol that were agreed on.
    ///
    /// # Panics
    ///
    /// When the connection has no TLS.
    #[must_use]
    #[track_caller]
    pub fn agreed(&mut self) -> (Option<rustls::ProtocolVersion>, Option<&[u8]>) {
        let session = &self.tls().conn;
        (session.protocol_version(), session.alpn_protocol())
    }

    /// What [`Self::send`] would send, as it stands in TLS, to be sent by [`Self::send_sealed`].
    ///
    /// # Panics
    ///
    /// When the connection has no TLS.
    #[must_use]
    #[track_caller]
    pub fn seal(&mut self, bytes: impl AsRef<[u8]>) -> Vec<u8> {
        let session = &mut self.tls().conn;
        session.writer().write_all(bytes.as_ref()).expect("it is not much");
        let mut sealed = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut sealed).expect("memory takes all");
        }
        sealed
    }

    /// Sends bytes below TLS.
    ///
    /// # Errors
    ///
    /// When the server does not take them.
    ///
    /// # Panics
    ///
    /// When the connection has no TLS.
    #[track_caller]
    pub fn send_sealed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls().sock.write_all(bytes)
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
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
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

    /// Receives an answer that goes on until the server closes the connection, just as it came.
    ///
    /// # Panics
    ///
    /// When none comes, or the server keeps the connection.
    #[track_caller]
    pub fn receive_to_the_end(&mut self) -> Answer {
        let mut answer = self.receive_head();
        self.wait_for_close();
        answer.body = mem::take(&mut self.received);
        answer
    }

    /// Claims that HEAD answers as GET does, without the body, which is there.
    ///
    /// # Panics
    ///
    /// When it does not.
    #[track_caller]
    pub fn assert_head_is_like_get(&mut self, path: &str) {
        let lines = "X-Request-Id: same\r\n";
        self.send(raw_head(&format!("GET {path}"), lines));
        let mut get = self.receive();
        self.send(raw_head(&format!("HEAD {path}"), lines));
        let mut head = self.receive_head();
        assert!(!get.body.is_empty(), "{get:?}");
        get.body.clear();
        for answer in [&mut get, &mut head] {
            answer.headers.retain(|(name, _)| name != "date");
            answer.headers.sort();
        }
        assert_eq!(head, get, "{path}");
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
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = self.try_receive_chunks()?;
            return Ok(answer);
        }
        let length = match answer.header("content-length").map(str::parse) {
            Some(Ok(length)) => length,
            other => return Err(io::Error::other(format!("body length {other:?}: {answer:?}"))),
        };
        answer.body = self.take(length)?;
        Ok(answer)
    }

    /// The chunks of a body up to and with the last, which is empty, put together.
    fn try_receive_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8_lossy(&self.take_through(b"\r\n")?).into_owned();
            let length = usize::from_str_radix(line.trim_end(), 16)
                .map_err(|cause| io::Error::other(format!("chunk length {line:?}: {cause}")))?;
            body.extend(self.take(length)?);
            let end = self.take(2)?;
            if end != b"\r\n" {
                return Err(io::Error::other(format!("{end:?} at the end of a chunk")));
            }
            if length == 0 {
                return Ok(body);
            }
        }
    }

    /// The next `length` bytes.
    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < length {
            self.receive_some()?;
        }
        Ok(self.received.drain(..length).collect())
    }

    /// The next bytes up to and with the next `end`.
    fn take_through(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.received.windows(end.len()).position(|bytes| bytes == end) {
                return self.take(at + end.len());
            }
            self.receive_some()?;
        }
    }

    /// As [`Self::receive_head`], for a server that may be gone.
    ///
    /// # Errors
    ///
    /// When none comes.
    pub fn try_receive_head(&mut self) -> io::Result<Answer> {
        let head = self.take_through(b"\r\n\r\n")?;
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

    /// Waits until something has come, which is kept for whoever receives.
    ///
    /// # Panics
    ///
    /// When nothing comes.
    #[track_caller]
    pub fn wait_for_bytes(&mut self) {
        self.receive_some().unwrap_or_else(|cause| panic!("nothing came: {cause}"));
    }

    /// Receives until this text has come, or the server has closed the connection, and returns all of it.
    ///
    /// # Panics
    ///
    /// When neither happens.
    #[track_caller]
    pub fn receive_until(&mut self, text: &str) -> String {
        loop {
            if self.received.windows(text.len()).any(|bytes| bytes == text.as_bytes()) {
                break;
            }
            match self.receive_some() {
                Ok(()) => {}
                Err(cause) if is_the_end(&cause) => {
                    break;
                }
                Err(cause) => panic!("neither {text:?} nor the end came: {cause}"),
            }
        }
        String::from_utf8_lossy(&mem::take(&mut self.received)).into_owned()
    }

    /// Claims that nothing comes for a while. It is no proof, so it must not be all that a test
    /// looks at.
    ///
    /// # Panics
    ///
    /// When something came.
    #[track_caller]
    pub fn assert_silent_for(&mut self, time: Duration) {
        self.stream.set_timeouts(time).expect("a time that is not zero");
        let result = self.receive_some();
        self.stream.set_timeouts(DEADLINE).expect("a time that is not zero");
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
            Err(cause) if is_the_end(&cause) => {}
            other => panic!("{other:?} {received:?} came where the connection should be closed"),
        }
    }

    /// Waits until the server ends its sending, and claims that nothing more came, and that the connection was
    /// not reset: a reset can take away what was sent before.
    ///
    /// # Panics
    ///
    /// When something came, or the server keeps or resets the connection.
    #[track_caller]
    pub fn assert_ended(&mut self, name: &str) {
        let result = self.receive_some();
        let received = String::from_utf8_lossy(&self.received);
        match result {
            Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => {}
            other => panic!("{name}: {other:?} {received:?} came where the end should"),
        }
    }

    /// Says that nothing more will be sent. What the server sends can still be received.
    ///
    /// # Panics
    ///
    /// When the connection is gone.
    pub fn finish_sending(&mut self) {
        self.try_finish_sending().expect("the connection is open");
    }

    /// As [`Self::finish_sending`], for a server that may have closed the connection.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn try_finish_sending(&mut self) -> io::Result<()> {
        self.stream.finish_sending()
    }

    /// As [`Self::finish_sending`], without saying so in TLS.
    ///
    /// # Panics
    ///
    /// When the connection is gone.
    pub fn break_off_sending(&mut self) {
        self.stream.socket().shutdown(Shutdown::Write).expect("the connection is open");
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
                Err(cause) if is_the_end(&cause) => {
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
        self.stream.socket().set_linger(Some(Duration::ZERO)).expect("a TCP socket can linger");
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whether the server has closed the connection.
fn is_the_end(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

/// A whole request with the token, byte for byte. `lines` are more lines of its head, each with
/// its line end.
#[must_use]
pub fn raw_request(request_line: &str, lines: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = format!("Content-Length: {}\r\n", body.len());
    [raw_head(request_line, &(lines.to_owned() + &length)).as_bytes(), body].concat()
}

/// The head of a request with the token, and nothing of its body. `lines` are more lines of it,
/// each with its line end.
#[must_use]
pub fn raw_head(request_line: &str, lines: &str) -> String {
    format!(
        "{request_line} HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n{lines}\r\n"
    )
}

/// One chunk of a body.
#[must_use]
pub fn chunk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
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
