//! Why a server failed.

use std::io;

use plant_store::StoreFailure;

use crate::server::deadlines::WORKERS_DEADLINE;

/// Why [`serve`](crate::serve) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The operating system refused a socket or a thread.
    #[error("{what}")]
    Io {
        /// What the server could not do.
        what: &'static str,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The store failed while serving or closing.
    #[error("the store failed; make sure that its disk works and has room, then start again")]
    Store(#[source] StoreFailure),
    /// The drain timed out, and this many connections were closed before their requests were answered.
    #[error("the drain timed out: closed {}", connections(*.0))]
    ConnectionsCutOff(usize),
    /// A thread did not end in time after all connections had ended.
    #[error(
        "the drain timed out: a thread had not ended {} s after the last connection; make sure that the disk, or the \
         database, answers",
        WORKERS_DEADLINE.as_secs()
    )]
    ThreadsCutOff,
}

fn connections(count: usize) -> String {
    match count {
        1 => "1 connection before its request was answered".to_owned(),
        _ => format!("{count} connections before their requests were answered"),
    }
}
