//! How long clients may take, in one place: sockets, TLS and HTTP share some of these.

use std::time::Duration;

/// How long the head of a request may take to arrive: the first one from the connection on, a later one from its first
/// byte on. A TLS handshake may take as long, before the first.
pub(crate) const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection may rest between two requests.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// How long a client may take to close a connection that the server has closed, and to send what nobody reads.
pub(crate) const DISCONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// How long a client that connected before the drain may take to send its first bytes, and before that to finish its
/// TLS handshake.
pub(crate) const FIRST_BYTES_GRACE: Duration = Duration::from_millis(500);

/// How long a client may take nothing of what waits to be sent to it.
pub(crate) const ANSWER_IDLE_DEADLINE: Duration = Duration::from_secs(20);

/// How long the threads may take to end when nothing is left for them to do.
pub(crate) const WORKERS_DEADLINE: Duration = Duration::from_secs(5);
