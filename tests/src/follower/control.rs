//! What a test tells its followers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::copy::PlantCopy;
use crate::answer::Answer;

/// Where the servers are, and what they may do.
#[derive(Debug)]
pub(super) struct FollowerControl {
    /// Where the servers are. An ended server must not stay here, because another server may get its port.
    pub(super) addresses: Mutex<Vec<SocketAddr>>,
    /// Whether servers may forget events that a follower has not read. The follower then exports again.
    pub(super) may_forget: AtomicBool,
    pub(super) is_over: AtomicBool,
}

/// A server did not answer, or did not take the request.
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

    /// Handles an answer other than 200. If events are gone, which the test must allow, the copy must be exported
    /// again. Fails when the server takes no requests for now.
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

/// Locks even after a panic of a holder, which is reported when its thread is joined.
pub(super) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
