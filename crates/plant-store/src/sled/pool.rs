//! Keeping sled's pool of threads going.
//!
//! Where the end of sled's file has become free, sled truncates it on a thread of its pool, and whoever then
//! needs room behind that end waits for it, with a lock in hand for which every other thread of the pool may
//! wait: then there is no thread left that could truncate, and nothing goes on. The pool starts another
//! thread only where more than [`QUEUED_TASKS`] wait for one, so that is what it is given.

use std::pin::pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

/// How many tasks have to wait until sled starts another thread.
const QUEUED_TASKS: usize = 8;

/// How often more threads are asked for while a database is opened.
const INTERVAL: Duration = Duration::from_secs(2);

/// Has sled start another thread where all that it has wait. The tasks that do it only flush.
pub(super) fn start_another_thread(db: &sled::Db) {
    for _ in 0..QUEUED_TASKS {
        // The first poll queues the task. Nobody waits for its end.
        let _ = pin!(db.flush_async()).poll(&mut Context::from_waker(Waker::noop()));
    }
}

/// Does something with sled that nothing else watches over, and keeps sled's pool going meanwhile.
pub(super) fn tended<T>(db: &sled::Db, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (working, has_worked) = mpsc::channel::<()>();
        let tending =
            thread::Builder::new().name("plant-open".to_owned()).spawn_scoped(scope, move || {
                while let Err(RecvTimeoutError::Timeout) = has_worked.recv_timeout(INTERVAL) {
                    start_another_thread(db);
                }
            });
        if let Err(cause) = tending {
            log::warn!("cannot start the thread that watches over the opening: {cause}");
        }
        let done = work();
        drop(working);
        done
    })
}
