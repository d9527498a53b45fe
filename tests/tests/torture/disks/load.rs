//! Clients that write until the store fails, and the answers that they get then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plantd_tests::{IO, Launch, Ledgers, TestServer, WriteOutcome, wait_for, wait_until};

const DRAIN_DELAY: Duration = Duration::from_secs(1);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest time beyond the drain in which the process must end, on a busy machine.
const SLACK: Duration = Duration::from_secs(7);

/// How long `/readyz` may take to report a failure on a busy machine. The promise is a second.
const READY_LIMIT: Duration = Duration::from_secs(5);

/// How much is written if the store does not fail: some segments of the write-ahead log, and more than the small
/// disks hold.
const ENOUGH_BYTES: usize = 32 * 1024 * 1024;

/// A server with a short drain.
pub(super) fn launch() -> Launch {
    Launch::new()
        .environment("PLANTD_DRAIN_DELAY", format!("{}s", DRAIN_DELAY.as_secs()))
        .environment("PLANTD_DRAIN_TIMEOUT", format!("{}s", DRAIN_TIMEOUT.as_secs()))
}

/// How many writes each client sends after it has learned of the failure.
const LATE_WRITES: u32 = 20;

/// Times since the first answer that reported the failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    /// When `/readyz` answered other than 200.
    pub(super) not_ready_after: Duration,
    /// When the process had ended.
    pub(super) ended_after: Duration,
}

/// The progress of all clients towards a failure.
#[derive(Default)]
struct Progress {
    written_bytes: AtomicUsize,
    /// The time of the first answer that reported the failure.
    failed: OnceLock<Instant>,
    stop: AtomicBool,
}

/// Empty ledgers of clients whose long imports fill the write-ahead log.
pub(super) fn new_ledgers() -> Ledgers {
    Ledgers::of_clients(4, 256)
}

/// Writes until the store has failed and the process has ended, and then returns the times; or until enough is
/// written.
#[track_caller]
pub(super) fn write_until_it_fails(
    server: &mut TestServer,
    ledgers: &mut Ledgers,
    chance: &mut fastrand::Rng,
) -> Option<Failed> {
    let progress = Progress::default();
    let mut failed = None;
    ledgers.write(server, chance, || progress.new_end(), |server| failed = progress.watch(server));
    failed
}

impl Progress {
    /// Ends a client when enough is written, when it gets no answer, or after enough writes since the failure. A
    /// write that begins after a client has learned of the failure must not succeed.
    fn new_end(&self) -> impl FnMut(WriteOutcome) -> bool {
        let (mut is_known_to_fail, mut late) = (false, 0);
        move |told| {
            match told {
                WriteOutcome::Acknowledged(bytes) => {
                    assert!(!is_known_to_fail, "the store had failed before");
                    let before = self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
                    if before > ENOUGH_BYTES {
                        self.stop.store(true, Ordering::Relaxed);
                    }
                }
                WriteOutcome::Refused => {}
                WriteOutcome::DiskFull => panic!("the disk has room"),
                WriteOutcome::StoreFailed => drop(self.failed.get_or_init(Instant::now)),
                WriteOutcome::NoAnswer => {
                    wait_for("a reason not to answer", || self.failed.get().copied());
                }
            }
            is_known_to_fail = self.failed.get().is_some();
            late += u32::from(is_known_to_fail);
            let stops = self.stop.load(Ordering::Relaxed);
            stops || told == WriteOutcome::NoAnswer || late > LATE_WRITES
        }
    }

    /// Waits until enough is written, or the store has failed. Asserts then that the process reports the failure and
    /// ends.
    fn watch(&self, server: &mut TestServer) -> Option<Failed> {
        let client = server.client();
        let written = || self.written_bytes.load(Ordering::Relaxed);
        let mut is_over = || {
            let is_over = self.stop.load(Ordering::Relaxed) || self.failed.get().is_some();
            is_over || !server.process().is_running()
        };
        while !is_over() {
            let before = written();
            wait_until("a failure, or one more write", || is_over() || written() > before);
        }
        let failed = self.failed.get().map(|first| {
            // On a busy machine, the process may have ended before this thread looks.
            while let Ok(answer) = client.try_send("GET", "/readyz", &[], "") {
                if answer.status != 200 {
                    assert_eq!(answer.status, 503, "{answer:?}");
                    break;
                }
                assert!(first.elapsed() < READY_LIMIT, "/readyz is 200 after a failure");
            }
            let not_ready_after = first.elapsed();
            server.process().assert_exit_code(IO);
            let ended_after = first.elapsed();
            let limit = DRAIN_DELAY + DRAIN_TIMEOUT + SLACK;
            assert!(ended_after < limit, "the process took {ended_after:?} to end");
            Failed { not_ready_after, ended_after }
        });
        self.stop.store(true, Ordering::Relaxed);
        failed
    }
}
