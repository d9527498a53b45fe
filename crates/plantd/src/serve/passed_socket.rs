//! A listening socket that systemd passes to the server.

use std::env;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use listenfd::ListenFd;
use socket2::SockRef;

/// A socket that another process keeps open, so that connections wait while no server runs.
#[derive(Debug)]
pub(crate) enum PassedSocket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl PassedSocket {
    /// The socket that `LISTEN_FDS` announces, if any.
    pub(crate) fn from_environment() -> anyhow::Result<Option<Self>> {
        let count = env::var("LISTEN_FDS").unwrap_or_else(|_| "0".to_owned());
        ensure!(count.parse::<u16>().is_ok(), "{count:?} is no count of sockets");
        let mut passed = ListenFd::from_env();
        match passed.len() {
            0 => return Ok(None),
            1 => {}
            count => bail!("it is {count} sockets, and a server has one"),
        }
        if let Ok(Some(listener)) = passed.take_unix_listener(0) {
            let address = listener.local_addr()?;
            let path = address.as_pathname().context("it is a Unix socket that has no path")?;
            ensure_listens(&listener)?;
            return Ok(Some(Self::Unix(listener, path.to_owned())));
        }
        let listener = passed.take_tcp_listener(0).ok().flatten();
        let listener = listener.context("it is neither a TCP socket nor a Unix socket")?;
        ensure_listens(&listener)?;
        Ok(Some(Self::Tcp(listener)))
    }
}

fn ensure_listens<'socket>(socket: impl Into<SockRef<'socket>>) -> anyhow::Result<()> {
    ensure!(socket.into().is_listener()?, "it is a socket that does not listen");
    Ok(())
}
