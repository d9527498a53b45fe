//! HTTP over a Unix socket, as a transport of ureq.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

/// Connects to a Unix socket, whatever the host of the URL is.
#[derive(Debug)]
pub(super) struct UnixConnector {
    pub(super) path: PathBuf,
}

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<UnixTransport>, Error> {
        let timeout = details.timeout;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // On Linux, this limits connecting too, which waits while the server accepts no connections.
        socket.set_write_timeout(duration(timeout))?;
        socket
            .connect(&SockAddr::unix(&self.path)?)
            .map_err(|cause| with_reason(cause, timeout.reason))?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(UnixTransport { stream: socket.into(), buffers }))
    }
}

/// Resolves nothing.
#[derive(Debug)]
pub(super) struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        Ok(self.empty())
    }
}

/// A connection for one request: another one over a Unix socket costs next to nothing.
#[derive(Debug)]
pub(super) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(duration(timeout))?;
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(|cause| with_reason(cause, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        self.stream.set_read_timeout(duration(timeout))?;
        let input = self.buffers.input_append_buf();
        let read = loop {
            match self.stream.read(input) {
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let length = read.map_err(|cause| with_reason(cause, timeout.reason))?;
        self.buffers.input_appended(length);
        Ok(length > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }
}

/// How long the next call may take; `None` without a limit.
fn duration(timeout: NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|duration| *duration)
}

/// The operating system reports the end of a timeout as `EAGAIN`.
fn with_reason(cause: io::Error, reason: Timeout) -> Error {
    match cause.kind() {
        ErrorKind::WouldBlock => Error::Timeout(reason),
        _ => cause.into(),
    }
}
