//! What followers must know of the test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::copy::PlantCopy;
use crate::answer::Answer;

/// Where the servers are, and what they may do.
#[derive(Debug)]
pub(super) struct FollowerControl {
    /// Where the servers are. It is empty while there is none: another server may get the port of one that has ended.
    pub(super) addresses: Mutex<Vec<SocketAddr>>,
    /// Whether a follower may be told that events are gone. Then it exports again.
    pub(super) may_forget: AtomicBool,
    pub(super) is_over: AtomicBool,
}

/// A server has not answered, or not taken the request.
#[derive(Debug)]
pub(super) struct Away;

impl FollowerControl {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        Self {
            addresses: Mutex::new(addresses),
            may_forget: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether a server may be at this address.
    pub(super) fn goes_on_at(&self, address: SocketAddr) -> bool {
        !self.is_over() && locked(&self.addresses).contains(&address)
    }

    /// Takes an answer other than 200. If events are gone, which must be allowed, the copy is to be exported again.
    /// Fails when the server takes no request now.
    #[track_caller]
    pub(super) fn take_refusal(
        &self,
        refusal: &Answer,
        copy: &Mutex<PlantCopy>,
    ) -> Result<(), Away> {
        if refusal.status == 503 {
            return Err(Away);
        }
        refusal.assert_error(410, 3004);
        let may_forget = self.may_forget.load(Ordering::Relaxed);
        assert!(may_forget, "events are gone after {:?}", locked(copy));
        locked(copy).forget();
        Ok(())
    }
}

/// What a lock guards. A panic of its holder is reported when its thread is joined.
pub(super) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
