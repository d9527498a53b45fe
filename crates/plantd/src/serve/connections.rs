//! How many connections the server accepts at the same time.

use std::num::NonZeroU32;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many descriptors are reserved for files, threads and standard streams.
const OTHER_DESCRIPTORS: u64 = 64;

/// The most connections, however many descriptors there are. Bounds their memory.
const MAX_CONNECTIONS: u32 = 32_768;

/// Raises the limit of open files to its maximum, and returns how many connections that allows.
pub(crate) fn max_connections() -> anyhow::Result<NonZeroU32> {
    let Rlimit { current: before, maximum } = getrlimit(Resource::Nofile);
    if before != maximum
        && let Err(cause) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        log::warn!("cannot raise the limit of open files: {cause}; fewer connections are accepted");
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = limit.saturating_sub(OTHER_DESCRIPTORS).min(MAX_CONNECTIONS.into());
    let connections = u32::try_from(connections).ok().and_then(NonZeroU32::new);
    connections.with_context(|| {
        format!(
            "this process may open {limit} files and needs more than {OTHER_DESCRIPTORS}; raise the \
             limit (ulimit -n, or LimitNOFILE= of systemd)"
        )
    })
}
