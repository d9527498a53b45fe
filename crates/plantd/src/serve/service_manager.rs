//! Tells the service manager that the server is ready, and that it stops (`man sd_notify`). The crate sd-notify 0.5 is no
//! choice: it does not support abstract sockets, and waits forever for a manager that has stalled.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::environment::variable;

/// The server takes requests.
pub(super) const READY: &str = "READY=1";

/// The drain has begun.
pub(super) const STOPPING: &str = "STOPPING=1";

/// How long a manager that has stalled may keep the server from its work.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends a state to the service manager, if one has set `NOTIFY_SOCKET`.
pub(super) fn notify(state: &str) {
    if let Some(cause) = variable("NOTIFY_SOCKET").and_then(|socket| send(&socket, state).err()) {
        log::warn!("cannot tell the service manager {state}: {cause}");
    }
}

fn send(address: &OsStr, state: &str) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}
