//! All deadlines for clients. They are in one place because sockets, TLS and HTTP share some of them.

use std::time::Duration;

/// How long the head of a request may take to arrive: the first head counted from the connection, a later one from
/// its first byte. A TLS handshake before the first head may take as long again.
pub(crate) const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection may be idle between two requests.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// How long the server waits for a client to close its side after a closing response, discarding what still arrives.
pub(crate) const DISCONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// How long a client that connected before the drain may take to send its first bytes, and before that to finish its
/// TLS handshake.
pub(crate) const FIRST_BYTES_GRACE: Duration = Duration::from_millis(500);

/// How long a client may leave a response unread.
pub(crate) const ANSWER_IDLE_DEADLINE: Duration = Duration::from_secs(20);

/// How long an answer may wait for memory before the request is refused. A part of an answer that has begun waits for
/// [`ANSWER_IDLE_DEADLINE`]: until then, clients that read nothing have left.
pub(crate) const ROOM_DEADLINE: Duration = Duration::from_secs(2);

/// How long the worker threads may take to end after the last connection has closed.
pub(crate) const WORKERS_DEADLINE: Duration = Duration::from_secs(5);
