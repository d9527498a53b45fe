//! sled as the on-disk ordered map, with its guards. The rest of the engine knows sled through this module alone.
//! `docs/storage.md` says for each guard when it may go.
//!
//! | sled 0.34.7 | guard |
//! |---|---|
//! | panics on some damaged files, and when the disk fails | `guarded.rs` turns panics into errors |
//! | deadlocks when its whole thread pool writes while its file is truncated | `paced.rs` flushes before that |
//! | counts a write as durable that may still be in the disk's volatile cache | `opening.rs` makes writes to its file synchronous |
//! | takes an unreadable part of its file for an empty one, and overwrites it | `opening.rs` reads all of the file first |
//! | fails on a snapshot that a kill left unfinished | `opening.rs` moves the snapshot aside |
//! | holds its lock for a moment after a close | `opening.rs` waits |
//! | syncs at its close, and panics when that fails | `guarded.rs` logs the panic: a checkpoint came before |
//!
//! Three guards stand in the engine: `room.rs` keeps 32 MiB of the disk free, the watchdog in `commit.rs` asks for errors
//! in the background, and `scan.rs` fuses iterators that read on after their end.

pub(super) mod guarded;
pub(super) mod opening;
pub(super) mod paced;

#[cfg(any(test, feature = "__internal"))]
pub(super) use ::sled::Config;
pub(super) use ::sled::{Db, IVec, Iter, Result, Tree};
