//! A listening Unix socket, whose path is removed with it.

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

use crate::files::private_file;

/// The prefix of an address that is the path of a Unix socket.
pub(crate) const UNIX_PREFIX: &str = "unix:";

/// The most bytes that the path of a Unix socket may have.
const UNIX_SOCKET_PATH_MAX_BYTES: usize = 107;

/// The owner and the group may connect; the group may be that of a proxy.
const MODE: u32 = 0o660;

/// Checks the length of a socket's path.
pub(crate) fn check_path(path: &Path) -> anyhow::Result<()> {
    let length = path.as_os_str().len();
    ensure!(
        (1..=UNIX_SOCKET_PATH_MAX_BYTES).contains(&length),
        "the path of a Unix socket has 1 to {UNIX_SOCKET_PATH_MAX_BYTES} bytes, and this one has {length}"
    );
    Ok(())
}

/// Listens at `path`, with room for `backlog` connections that wait to be accepted. Replaces the socket of a process that
/// has ended. Of several servers that start at the same time, only one gets the path; the lock file `PATH.lock` ensures
/// that. The server removes the path before it accepts its last connections.
///
/// # Errors
///
/// When a process listens there, something other than a socket is there, or the operating system refuses the path.
pub(crate) fn listen(path: &Path, backlog: i32) -> anyhow::Result<ListeningSocket> {
    check_path(path)?;
    let address = SockAddr::unix(path)?;
    // Another server would take a socket that does not listen yet for a leftover.
    let _lock = private_file::lock(path)?;
    remove_left_behind(path, &address)?;
    let socket = new_socket()?;
    socket.bind(&address)?;
    let name = SocketName::of(path)?;
    // Set before the socket listens, so that no unauthorized user can connect.
    set_mode(path).context("cannot set its mode")?;
    socket.listen(backlog)?;
    Ok(ListeningSocket::from(UnixListener::from(socket)).with_guard(name))
}

/// Sets the mode of the socket at `path`. Another user who owns the folder could put a link to any file there, and the mode
/// of a socket can be set by a path only; so this opens and checks the socket, and uses its path in `/proc`.
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

/// Removes the socket at `path` if no process listens there.
fn remove_left_behind(path: &Path, address: &SockAddr) -> anyhow::Result<()> {
    // Links are not followed: their target may belong to another user.
    match fs::symlink_metadata(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(cause.into()),
        Ok(metadata) => {
            ensure!(metadata.file_type().is_socket(), "something is there that is no socket");
        }
    }
    let probe = new_socket()?;
    // A busy server would block the connect.
    probe.set_nonblocking(true)?;
    match probe.connect(address) {
        Err(cause) if cause.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).context("cannot remove the socket of a server that does not run")
        }
        // The socket was removed in the meantime.
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        Ok(()) => bail!("it is in use: another process listens there"),
        Err(cause) if cause.kind() == ErrorKind::WouldBlock => {
            bail!("it is in use: another process listens there, and is busy")
        }
        Err(cause) => Err(cause).context("cannot tell whether it is in use"),
    }
}

/// The path of a socket of this process. Dropping this removes the path, unless another file is there now.
struct SocketName {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketName {
    fn of(path: &Path) -> io::Result<Self> {
        // Absolute, because the current folder may change.
        let path = std::path::absolute(path)?;
        Ok(Self { identity: identity(&path)?, path })
    }
}

/// The device and the inode.
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
