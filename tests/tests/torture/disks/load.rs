//! Clients that write until the store fails, and what they are told then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::{Client, Launch, Ledgers, TestServer, Told, wait_for, wait_until};

use super::IO;

/// How the servers here drain.
const DRAIN_DELAY: Duration = Duration::from_secs(1);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How much longer than the drain the end may take, on a machine that has much to do.
const SLACK: Duration = Duration::from_secs(7);

/// How long `/readyz` may take to tell of a failure. (The claim is a second.)
const READY_LIMIT: Duration = Duration::from_secs(5);

/// How much is written at most where the store does not fail: some segments of the journal, and
/// more than the small disks hold.
const ENOUGH_BYTES: usize = 32 * 1024 * 1024;

/// A server that drains like that.
pub(super) fn launch() -> Launch {
    Launch::new()
        .environment("PLANTD_DRAIN_DELAY", format!("{}s", DRAIN_DELAY.as_secs()))
        .environment("PLANTD_DRAIN_TIMEOUT", format!("{}s", DRAIN_TIMEOUT.as_secs()))
}

/// How many writes each client sends when it knows that the store has failed.
const LATE_WRITES: u32 = 20;

/// How long after the first answer that told of the failure the rest came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    /// `/readyz` was not 200 any more.
    pub(super) not_ready_after: Duration,
    /// The process had ended.
    pub(super) ended_after: Duration,
}

/// What the clients of one load share.
#[derive(Default)]
struct Load {
    /// How much was acknowledged by now.
    written_bytes: AtomicUsize,
    /// When the first answer told that the store has failed.
    failed: OnceLock<Instant>,
    /// Enough was written, or the server is gone.
    stop: AtomicBool,
}

/// Empty ledgers of clients whose imports are so long that the journal fills.
pub(super) fn new_ledgers() -> Ledgers {
    Ledgers::of_clients(4, 256)
}

/// Writes to `server` until its store has failed and the process is gone, or until enough was
/// written; in that case the server goes on. Returns what is known when the store has failed.
#[track_caller]
pub(super) fn write_until_it_fails(
    server: &mut TestServer,
    ledgers: &mut Ledgers,
    chance: &mut fastrand::Rng,
) -> Option<Failed> {
    let load = Load::default();
    let mut failed = None;
    ledgers.write(server, chance, || load.new_end(), |server| failed = load.watch(server));
    failed
}

impl Load {
    /// What ends a client: enough was written, nothing is answered any more, or there were enough
    /// writes since the failure. One that is sent when the failure is known must not succeed.
    fn new_end(&self) -> impl FnMut(Told) -> bool {
        let (mut is_known_to_fail, mut late) = (false, 0);
        move |told| {
            match told {
                Told::Acknowledged(bytes) => {
                    assert!(!is_known_to_fail, "the store had failed before");
                    let before = self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
                    if before > ENOUGH_BYTES {
                        self.stop.store(true, Ordering::Relaxed);
                    }
                }
                Told::Refused => {}
                Told::DiskFull => panic!("the disk has room"),
                Told::StoreFailed => drop(self.failed.get_or_init(Instant::now)),
                Told::Nothing => {
                    wait_for("a reason not to answer", || self.failed.get().copied());
                }
            }
            is_known_to_fail = self.failed.get().is_some();
            late += u32::from(is_known_to_fail);
            let stops = self.stop.load(Ordering::Relaxed);
            stops || told == Told::Nothing || late > LATE_WRITES
        }
    }

    /// Waits until the store has failed, and claims that the process tells of it and ends; or until
    /// enough was written.
    fn watch(&self, server: &mut TestServer) -> Option<Failed> {
        let client = server.client();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let not_ready = scope.spawn(|| self.wait_until_not_ready(&client, &is_over));
            let _over = SetOnDrop(&is_over);
            let mut is_over = || {
                let is_over = self.stop.load(Ordering::Relaxed) || self.failed.get().is_some();
                is_over || !server.process().is_running()
            };
            while !is_over() {
                let written = || self.written_bytes.load(Ordering::Relaxed);
                let before = written();
                wait_until("a failure, or one more write", || is_over() || written() > before);
            }
            let failed = self.failed.get().map(|first| {
                server.process().assert_exit_code(IO);
                let ended_after = first.elapsed();
                let limit = DRAIN_DELAY + DRAIN_TIMEOUT + SLACK;
                assert!(ended_after < limit, "it took {ended_after:?}");
                let not_ready = not_ready.join().expect("/readyz answers");
                let not_ready = not_ready.expect("/readyz tells of the failure");
                let not_ready_after = not_ready.saturating_duration_since(*first);
                assert!(not_ready_after < READY_LIMIT, "it took {not_ready_after:?}");
                Failed { not_ready_after, ended_after }
            });
            self.stop.store(true, Ordering::Relaxed);
            failed
        })
    }

    /// When `/readyz` was not 200 any more. Nothing when it did not say so in time, or the test was over
    /// before.
    fn wait_until_not_ready(&self, client: &Client, is_over: &AtomicBool) -> Option<Instant> {
        let is_late = || self.failed.get().is_some_and(|first| first.elapsed() > READY_LIMIT);
        while !is_over.load(Ordering::Relaxed) && !is_late() {
            let answer = client.get("/readyz");
            if answer.status != 200 {
                assert_eq!(answer.status, 503, "{answer:?}");
                return Some(Instant::now());
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

/// Tells a thread to end, also when a claim does not hold: a scope waits for its threads.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
