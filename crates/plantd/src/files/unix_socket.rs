//! A Unix socket with a name, and whose name that is.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use plant_http::ListeningSocket;
use rustix::fs::{Mode, OFlags};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::files::lock_file;

/// The most bytes that the path of a Unix socket may have.
pub(crate) const UNIX_SOCKET_PATH_MAX_BYTES: usize = 107;

/// Lets the owner connect, and the group, which may be a proxy's.
const MODE: u32 = 0o660;

/// A Unix socket that listens, and its name in the file system, which is removed with it.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    name: SocketName,
}

impl UnixSocket {
    /// Whether a socket can have this path at all.
    ///
    /// # Errors
    ///
    /// When it is empty, or longer than [`UNIX_SOCKET_PATH_MAX_BYTES`].
    pub(crate) fn check_path(path: &Path) -> anyhow::Result<()> {
        let length = path.as_os_str().len();
        ensure!(
            (1..=UNIX_SOCKET_PATH_MAX_BYTES).contains(&length),
            "the path of a Unix socket has 1 to {UNIX_SOCKET_PATH_MAX_BYTES} bytes, and this one has \
             {length}"
        );
        Ok(())
    }

    /// Listens at `path`, where the owner and the group of the socket may connect. A socket that a
    /// process has left there that does not run any more is taken over; of several servers that start at the
    /// same time, one gets it. (The file `PATH.lock` is for that.) `backlog` is how many connections
    /// may wait to be taken.
    ///
    /// # Errors
    ///
    /// When someone listens there, something else is there, the path is none that a socket can have, or
    /// the operating system does not allow it.
    pub(crate) fn bind(path: &Path, backlog: i32) -> anyhow::Result<Self> {
        Self::check_path(path)?;
        let address = SockAddr::unix(path)?;
        // Another server would take a socket for one left behind that does not listen yet.
        let _lock = lock_file::lock(path)?;
        remove_left_behind(path, &address)?;
        let socket = new_socket()?;
        socket.bind(&address)?;
        let name = SocketName::of(path)?;
        // Nobody can connect to a socket that does not listen yet, so that there is no moment at which
        // more may connect than should.
        set_mode(path).context("cannot set its mode")?;
        socket.listen(backlog)?;
        Ok(Self { listener: socket.into(), name })
    }

    /// For a server, which removes the name before it takes its last connections.
    pub(crate) fn into_listening_socket(self) -> ListeningSocket {
        ListeningSocket::from(self.listener).with_guard(self.name)
    }
}

/// Sets the mode of the socket at `path`, and of nothing else: the folder may be another user's, who can put a link
/// there that leads to any file. The mode of a named socket can be set by a path only. So this takes the path below
/// `/proc` of the socket that was opened and checked.
fn set_mode(path: &Path) -> anyhow::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    ensure!(socket.metadata()?.file_type().is_socket(), "something else has come in its place");
    let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
    Ok(fs::set_permissions(path, Permissions::from_mode(MODE))?)
}

fn new_socket() -> io::Result<Socket> {
    Socket::new(Domain::UNIX, Type::STREAM, None)
}

/// Removes the socket at `path` when nobody listens there.
fn remove_left_behind(path: &Path, address: &SockAddr) -> anyhow::Result<()> {
    // Of a link, the link itself counts: what it leads to need not be ours.
    match fs::symlink_metadata(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(cause.into()),
        Ok(metadata) => {
            ensure!(metadata.file_type().is_socket(), "something is there that is no socket");
        }
    }
    let probe = new_socket()?;
    // A server that takes no connection for now would be waited for.
    probe.set_nonblocking(true)?;
    match probe.connect(address) {
        Err(cause) if cause.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).context("cannot remove the socket of a server that does not run")
        }
        // It has just gone.
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        Ok(()) => bail!("it is in use: another process listens there"),
        Err(cause) if cause.kind() == ErrorKind::WouldBlock => {
            bail!("it is in use: another process listens there, and is busy")
        }
        Err(cause) => Err(cause).context("cannot tell whether it is in use"),
    }
}

/// The name of a socket of this process. It is removed when this is dropped, unless it has become that of
/// something else.
#[derive(Debug)]
struct SocketName {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketName {
    fn of(path: &Path) -> io::Result<Self> {
        // The current folder may be another one later.
        let path = std::path::absolute(path)?;
        Ok(Self { identity: identity(&path)?, path })
    }
}

/// What no other file has at the same time.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Drop for SocketName {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(cause) = fs::remove_file(&self.path)
        {
            log::warn!("cannot remove the socket {}: {cause}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_name_that_has_become_that_of_another_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = UnixSocket::bind(&path, 1).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        let second = UnixSocket::bind(&path, 1).unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_has_as_many_bytes_as_fit_into_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let rest = UNIX_SOCKET_PATH_MAX_BYTES - folder.path().as_os_str().len() - 1;
        let longest = folder.path().join("x".repeat(rest));
        drop(UnixSocket::bind(&longest, 1).unwrap());
        for path in [PathBuf::new(), folder.path().join("x".repeat(rest + 1))] {
            let refusal = UnixSocket::bind(&path, 1).unwrap_err().to_string();
            assert!(refusal.contains("107 bytes"), "{refusal}");
        }
    }
}
