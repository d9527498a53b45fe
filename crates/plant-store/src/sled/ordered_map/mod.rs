//! sled as the on-disk ordered map, and all that it has to be guarded against. The rest of the engine knows sled through
//! this module alone.
//!
//! | sled 0.34.7 | guard |
//! |---|---|
//! | panics on some damaged files, and where the disk fails | `guarded.rs` turns panics into errors |
//! | deadlocks when its whole thread pool writes while its file is truncated | `paced.rs` flushes before that |
//! | takes a write as kept that may still be in the disk's volatile cache | `engine.rs` makes writes to its file synchronous |
//! | takes a part of its file that cannot be read for an empty one, and writes over it | `engine.rs` reads all of it first |
//! | fails on a snapshot that a kill left unfinished | `engine.rs` moves it aside |
//! | holds its lock for a moment after it was closed | `engine.rs` waits |
//! | syncs when it is closed, and panics where that fails | `guarded.rs` logs the panic: a checkpoint came before |
//!
//! Three hazards need the engine around it: a full disk (`room.rs` keeps 32 MiB free), errors in the background (the
//! watchdog in `commit.rs` asks for them), and iterators that read on after their end (`scan.rs` fuses its own).

pub(super) mod engine;
pub(super) mod guarded;
pub(super) mod paced;

#[cfg(any(test, feature = "__internal"))]
pub(super) use ::sled::Config;
pub(super) use ::sled::{Db, IVec, Iter, Result, Tree};
