//! sled as the on-disk ordered map, with its guards. The rest of the engine uses sled only through this module.
//! `docs/storage.md` lists the hazards of sled 0.34.7, the guard against each, and when the guard may be
//! removed.

pub(super) mod guarded;
pub(super) mod opening;
pub(super) mod paced;

#[cfg(any(test, feature = "__internal"))]
pub(super) use ::sled::Config;
pub(super) use ::sled::{Db, IVec, Iter, Tree};
