//! One connection, with or without TLS, on which a test sends arbitrary bytes: requests that well-behaved clients do
//! not send. Over TLS, a close without `close_notify` counts as an error.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, Stream};
use socket2::Socket;

use crate::answer::Answer;
use crate::{DEADLINE, TOKEN};

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    tls: Option<ClientConnection>,
    /// Bytes that have arrived and belong to no answer yet.
    received: Vec<u8>,
}

impl Connection {
    /// A new connection.
    #[track_caller]
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).unwrap_or_else(|cause| panic!("no connection: {cause}"))
    }

    /// Like [`Self::open`], but the server may no longer accept connections.
    pub fn try_open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Self::over(stream.into(), None)
    }

    /// A new connection to a Unix socket.
    pub fn open_unix(path: &Path) -> io::Result<Self> {
        Self::over(UnixStream::connect(path)?.into(), None)
    }

    /// A new connection with TLS, after the handshake, which may fail.
    pub fn open_tls(address: SocketAddr, client: &Arc<ClientConfig>) -> io::Result<Self> {
        let Self { mut socket, .. } = Self::try_open(address)?;
        let name = ServerName::from(address.ip());
        let mut session = ClientConnection::new(Arc::clone(client), name).expect("a client");
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Self::over(socket, Some(session))
    }

    fn over(socket: Socket, tls: Option<ClientConnection>) -> io::Result<Self> {
        let connection = Self { socket, tls, received: Vec::new() };
        connection.set_timeouts(DEADLINE)?;
        Ok(connection)
    }

    pub(crate) fn set_timeouts(&self, time: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(time))?;
        self.socket.set_write_timeout(Some(time))
    }

    #[track_caller]
    fn session(&mut self) -> &mut ClientConnection {
        self.tls.as_mut().expect("the connection has TLS")
    }

    /// The server's certificate, and whether the handshake was a full one instead of a resumption.
    #[track_caller]
    pub fn certificate(&mut self) -> (CertificateDer<'static>, bool) {
        let session = self.session();
        let shown = session.peer_certificates().and_then(|chain| chain.first());
        let is_new = session.handshake_kind() != Some(HandshakeKind::Resumed);
        (shown.expect("the server showed one").clone(), is_new)
    }

    /// The negotiated TLS version and ALPN protocol.
    #[track_caller]
    pub fn agreed(&mut self) -> (Option<rustls::ProtocolVersion>, Option<&[u8]>) {
        let session = self.session();
        (session.protocol_version(), session.alpn_protocol())
    }

    /// Encrypts bytes, for [`Self::send_sealed`].
    #[track_caller]
    pub fn seal(&mut self, bytes: impl AsRef<[u8]>) -> Vec<u8> {
        let session = self.session();
        session.writer().write_all(bytes.as_ref()).expect("the buffer takes the bytes");
        let mut sealed = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut sealed).expect("memory takes all");
        }
        sealed
    }

    /// Sends bytes that [`Self::seal`] has encrypted.
    pub fn send_sealed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Sends bytes.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap_or_else(|cause| panic!("cannot send: {cause}"));
    }

    /// Like [`Self::send`], but the server may have closed the connection.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let Self { socket, tls, .. } = self;
        let Some(session) = tls else { return socket.write_all(bytes.as_ref()) };
        let mut stream = Stream::new(session, socket);
        stream.write_all(bytes.as_ref())?;
        stream.flush()
    }

    /// Receives the next answer.
    #[track_caller]
    pub fn receive(&mut self) -> Answer {
        self.try_receive().unwrap_or_else(|cause| panic!("no answer: {cause}"))
    }

    /// Receives the next answer to a HEAD, which has no body regardless of its `Content-Length`.
    #[track_caller]
    pub fn receive_head(&mut self) -> Answer {
        self.try_receive_head().unwrap_or_else(|cause| panic!("no answer: {cause}"))
    }

    /// Receives an answer until the connection closes, without decoding its body.
    #[track_caller]
    pub fn receive_to_the_end(&mut self) -> Answer {
        let mut answer = self.receive_head();
        self.wait_for_close();
        answer.body = mem::take(&mut self.received);
        answer
    }

    /// Asserts that HEAD answers as GET does, without the body that GET has.
    #[track_caller]
    pub fn assert_head_is_like_get(&mut self, path: &str, lines: &str) {
        self.assert_head_is_get_without(&[], path, lines);
    }

    /// Asserts that HEAD answers as GET does, without the body that GET has, and without the headers that need the body.
    #[track_caller]
    pub fn assert_head_is_get_without(&mut self, headers: &[&str], path: &str, lines: &str) {
        let lines = &format!("X-Request-Id: same\r\n{lines}");
        self.send(raw_head(&format!("GET {path}"), lines));
        let mut get = self.receive();
        self.send(raw_head(&format!("HEAD {path}"), lines));
        let mut head = self.receive_head();
        assert!(!get.body.is_empty(), "{get:?}");
        get.body.clear();
        get.headers.retain(|(name, _)| !headers.contains(&name.as_str()));
        for answer in [&mut get, &mut head] {
            answer.headers.retain(|(name, _)| name != "date");
            answer.headers.sort();
        }
        assert_eq!(head, get, "{path}");
    }

    /// Begins a create with [`TOKEN`]. On return, the server has read the head, because it has asked for the body.
    #[track_caller]
    pub fn begin_create(&mut self, body: &str) {
        let lines = format!(
            "Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.send(raw_head("POST /plants", &lines));
        assert_eq!(self.receive().status, 100);
    }

    /// Like [`Self::receive`], but the server may have stopped.
    pub fn try_receive(&mut self) -> io::Result<Answer> {
        let mut answer = self.try_receive_head()?;
        answer.body = self.try_receive_body(&answer)?;
        Ok(answer)
    }

    pub(crate) fn try_receive_body(&mut self, head: &Answer) -> io::Result<Vec<u8>> {
        if head.header("transfer-encoding") != Some("chunked") {
            let length = head.body_length()?;
            self.receive_bytes(length)?;
            return Ok(self.received.drain(..length).collect());
        }
        let mut body = Vec::new();
        while let Some(chunk) = self.try_receive_chunk()? {
            body.extend(chunk);
        }
        Ok(body)
    }

    /// The next bytes of a body that ends with the connection; `None` at that end.
    pub(crate) fn try_receive_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.received.is_empty()
            && let Err(cause) = self.receive_some()
        {
            return if cause.kind() == ErrorKind::UnexpectedEof { Ok(None) } else { Err(cause) };
        }
        Ok(Some(mem::take(&mut self.received)))
    }

    /// The next chunk of a body; `None` for the empty chunk that ends it. A call that fails within a chunk loses none
    /// of its bytes, so the next call can receive the chunk.
    pub(crate) fn try_receive_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let head = self.receive_through(b"\r\n")?;
        let line = String::from_utf8_lossy(&self.received[..head]).into_owned();
        let length = usize::from_str_radix(line.trim_end(), 16)
            .map_err(|cause| io::Error::other(format!("chunk length {line:?}: {cause}")))?;
        self.receive_bytes(head + length + 2)?;
        self.received.drain(..head);
        let chunk: Vec<u8> = self.received.drain(..length).collect();
        let end: Vec<u8> = self.received.drain(..2).collect();
        if end != b"\r\n" {
            return Err(io::Error::other(format!("{end:?} at the end of a chunk")));
        }
        Ok((length > 0).then_some(chunk))
    }

    /// Receives until [`Self::received`] has this many bytes.
    fn receive_bytes(&mut self, length: usize) -> io::Result<()> {
        while self.received.len() < length {
            self.receive_some()?;
        }
        Ok(())
    }

    /// Receives until `end` has arrived. Returns the number of bytes up to and including `end`.
    fn receive_through(&mut self, end: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(at) = self.received.windows(end.len()).position(|bytes| bytes == end) {
                return Ok(at + end.len());
            }
            self.receive_some()?;
        }
    }

    /// Like [`Self::receive_head`], but the server may have stopped.
    pub fn try_receive_head(&mut self) -> io::Result<Answer> {
        loop {
            if let Some((length, answer)) = Answer::parse_head(&self.received)? {
                self.received.drain(..length);
                return Ok(answer);
            }
            self.receive_some()?;
        }
    }

    fn receive_some(&mut self) -> io::Result<()> {
        let mut buffer = [0; 8192];
        let length = loop {
            match self.read(&mut buffer) {
                // After SIGSTOP and SIGCONT, the kernel does not restart a read with a timeout (signal(7)).
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.received.extend_from_slice(&buffer[..length]);
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &mut self.tls else { return self.socket.read(buffer) };
        // Without `close_notify`, something may be missing.
        Stream::new(session, &mut self.socket).read(buffer).map_err(|cause| match cause.kind() {
            ErrorKind::UnexpectedEof => ErrorKind::ConnectionAborted.into(),
            _ => cause,
        })
    }

    /// Waits until bytes have arrived, and keeps them.
    #[track_caller]
    pub fn wait_for_bytes(&mut self) {
        self.receive_some().unwrap_or_else(|cause| panic!("nothing arrived: {cause}"));
    }

    /// Receives until this text has arrived or the server has closed the connection. Returns all that was received.
    #[track_caller]
    pub fn receive_until(&mut self, text: &str) -> String {
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        while !has(&self.received) && !self.receive_or_end() {}
        String::from_utf8_lossy(&mem::take(&mut self.received)).into_owned()
    }

    /// Waits until the server closes the connection, and discards what arrives before.
    #[track_caller]
    pub fn wait_for_close(&mut self) {
        while !self.receive_or_end() {}
    }

    /// Receives bytes. Returns whether the server has closed the connection instead.
    #[track_caller]
    fn receive_or_end(&mut self) -> bool {
        match self.receive_some() {
            Ok(()) => false,
            Err(cause) if is_end(cause.kind()) => true,
            Err(cause) => panic!("neither more bytes nor the end arrived: {cause}"),
        }
    }

    /// Asserts that nothing arrives for a while. This proves little, so a test needs another assertion too.
    #[track_caller]
    pub fn assert_silent_for(&mut self, time: Duration) {
        self.set_timeouts(time).expect("a time that is not zero");
        self.assert_next_is("silence", |kind| {
            matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
        });
        self.set_timeouts(DEADLINE).expect("a time that is not zero");
    }

    /// Waits until the server closes the connection, and asserts that nothing more arrived.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        self.assert_next_is("the end of the connection", is_end);
    }

    /// Like [`Self::assert_closed`], and asserts that the server did not reset the connection: a reset may discard
    /// what was sent before.
    #[track_caller]
    pub fn assert_ended(&mut self, name: &str) {
        self.assert_next_is(name, |kind| kind == ErrorKind::UnexpectedEof);
    }

    #[track_caller]
    fn assert_next_is(&mut self, what: &str, is_wanted: impl Fn(ErrorKind) -> bool) {
        let result = self.receive_some();
        let is_wanted = result.as_ref().is_err_and(|cause| is_wanted(cause.kind()));
        let received = String::from_utf8_lossy(&self.received);
        assert!(is_wanted, "{what} was expected, not {result:?} with {received:?}");
    }

    /// Closes the sending direction, over TLS with `close_notify`.
    pub fn finish_sending(&mut self) {
        self.try_finish_sending().expect("the connection is open");
    }

    /// Like [`Self::finish_sending`], but the server may have closed the connection.
    pub fn try_finish_sending(&mut self) -> io::Result<()> {
        if let Some(session) = &mut self.tls {
            session.send_close_notify();
            Stream::new(session, &mut self.socket).flush()?;
        }
        self.socket.shutdown(Shutdown::Write)
    }

    /// Like [`Self::finish_sending`], without `close_notify`.
    pub fn break_off_sending(&mut self) {
        self.socket.shutdown(Shutdown::Write).expect("the connection is open");
    }

    /// Resets the connection. Bytes in transit are lost.
    pub fn reset(self) {
        self.socket.set_linger(Some(Duration::ZERO)).expect("a TCP socket can linger");
    }
}

/// Whether such an error means that the server has closed the connection.
fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

/// A whole request with [`TOKEN`]. `lines` are more header lines, each with its line end.
pub fn raw_request(request_line: &str, lines: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = format!("Content-Length: {}\r\n", body.len());
    [raw_head(request_line, &(lines.to_owned() + &length)).as_bytes(), body].concat()
}

/// The head of a request with [`TOKEN`]. `lines` are more header lines, each with its line end.
pub fn raw_head(request_line: &str, lines: &str) -> String {
    format!(
        "{request_line} HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n{lines}\r\n"
    )
}

/// One chunk of a body.
pub fn chunk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A whole create request with [`TOKEN`].
pub fn create_request(body: &str) -> String {
    let lines = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    raw_head("POST /plants", &lines) + body
}
