//! Clients that write until the store fails, and what they are told then.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::{
    Answer, Client, Counts, Format, Launch, NewPlant, TOKEN, TestServer, replacement_body, wait_for,
};

use super::IO;
use super::ledger::Ledger;

/// How the servers here drain.
const DRAIN_DELAY: Duration = Duration::from_secs(1);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How much longer than the drain the end may take, on a machine that has much to do.
const SLACK: Duration = Duration::from_secs(7);

/// How long `/readyz` may take to tell of a failure. (The claim is a second.)
const READY_LIMIT: Duration = Duration::from_secs(5);

/// How many clients write one plant after the other.
const WRITERS: i64 = 3;

/// How many plants each of them has.
const PLANTS: i64 = 50;

/// How many plants one more client imports at once, again and again.
const IMPORTED: i64 = 200;

/// How much is written at most where the store does not fail: some segments of the journal.
const ENOUGH_BYTES: u64 = 20 * 1024 * 1024;

/// A server that drains like that.
pub(super) fn launch() -> Launch {
    Launch::new()
        .environment("PLANTD_DRAIN_DELAY", format!("{}s", DRAIN_DELAY.as_secs()))
        .environment("PLANTD_DRAIN_TIMEOUT", format!("{}s", DRAIN_TIMEOUT.as_secs()))
}

/// How many writes each client sends when it knows that the store has failed.
const LATE_WRITES: u32 = 20;

/// How a load ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// What is known when the store has failed; `None` where it has not.
    pub(super) failed: Option<Failed>,
    pub(super) ledger: Ledger,
}

/// How long after the first answer that told of the failure the rest came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    /// `/readyz` was not 200 any more.
    pub(super) not_ready_after: Duration,
    /// The process had ended.
    pub(super) ended_after: Duration,
}

/// What the clients of one load share.
struct Load {
    address: SocketAddr,
    /// How much was acknowledged by now.
    written_bytes: AtomicU64,
    /// When the first answer told that the store has failed.
    failed: OnceLock<Instant>,
    /// Enough was written, or the server is gone.
    stop: AtomicBool,
}

/// Writes to `server` until its store has failed and the process is gone, or until enough was
/// written; in that case the server goes on.
#[track_caller]
pub(super) fn write_until_it_fails(server: &mut TestServer) -> Ended {
    let load = Load {
        address: server.address(),
        written_bytes: AtomicU64::new(0),
        failed: OnceLock::new(),
        stop: AtomicBool::new(false),
    };
    let mut ledger = Ledger::default();
    let mut failed = None;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let load = &load;
                scope.spawn(move || load.write(number))
            })
            .collect();
        let importer = scope.spawn(|| load.import());
        let not_ready = scope.spawn(|| load.wait_until_not_ready());
        wait_for("the store to fail, or enough to be written", || {
            let is_over = load.stop.load(Ordering::Relaxed);
            (is_over || load.failed.get().is_some() || !server.process().is_running()).then_some(())
        });
        if let Some(first) = load.failed.get() {
            let status = server.process().wait_for_exit();
            let ended_after = first.elapsed();
            assert_eq!(status.code(), Some(IO), "{}", server.stderr());
            assert!(ended_after < DRAIN_DELAY + DRAIN_TIMEOUT + SLACK, "it took {ended_after:?}");
            let not_ready = not_ready.join().expect("/readyz tells of the failure");
            let not_ready_after = not_ready.saturating_duration_since(*first);
            assert!(not_ready_after < READY_LIMIT, "it took {not_ready_after:?}");
            failed = Some(Failed { not_ready_after, ended_after });
        }
        load.stop.store(true, Ordering::Relaxed);
        for writer in writers.into_iter().chain([importer]) {
            ledger.add(writer.join().expect("every client is answered as it should be"));
        }
    });
    Ended { failed, ledger }
}

/// What a client is told.
enum Told {
    Success,
    /// The store has failed: this write was carried out, or not.
    Failed,
    /// No answer, which may only be when the store has failed: this write was carried out, or not.
    Nothing,
}

impl Load {
    /// Creates, changes and deletes the plants of this writer.
    fn write(&self, number: i64) -> Ledger {
        let client = Client::new(self.address, Some(TOKEN));
        let mut ledger = Ledger::default();
        let mut is_there = false;
        let mut late = 0;
        for round in (0..).take_while(|_| !self.stop.load(Ordering::Relaxed)) {
            // Four rounds in a row are for one plant. The last of them deletes it.
            let id = number + WRITERS * (round / 4 % PLANTS);
            let plant = long_plant(id, round);
            let path = format!("/plants/{id}");
            let (method, path, body, status) = match (round % 4, is_there) {
                (3, _) => ("DELETE", path.as_str(), String::new(), 204),
                (_, false) => ("POST", "/plants", plant.json(), 200),
                (_, true) => {
                    let body = replacement_body(&plant.name, plant.tag.as_deref());
                    ("PUT", path.as_str(), body, 200)
                }
            };
            is_there = method != "DELETE";
            let state = is_there.then_some(plant);
            let told = self.send(&client, method, path, "application/json", &body, |answer| {
                assert_eq!(answer.status, status, "{answer:?}");
            });
            match &told {
                Told::Success => {
                    self.count(state.iter());
                    ledger.acknowledge(id, state);
                }
                Told::Failed | Told::Nothing => ledger.doubt(id, state),
            }
            late += u32::from(self.failed.get().is_some());
            if matches!(told, Told::Nothing) || late > LATE_WRITES {
                break;
            }
        }
        ledger
    }

    /// Imports the same plants again and again, each time with other names.
    fn import(&self) -> Ledger {
        const PATH: &str = "/plants/import?on_conflict=replace";
        let client = Client::new(self.address, Some(TOKEN));
        let media_type = Format::Ndjson.media_type();
        let mut ledger = Ledger::default();
        for round in (0..).take_while(|_| !self.stop.load(Ordering::Relaxed)) {
            let plants: Vec<NewPlant> =
                (1..=IMPORTED).map(|number| long_plant(-number, round)).collect();
            let body = Format::Ndjson.body(&plants);
            let (created, replaced) =
                if round == 0 { (plants.len(), 0) } else { (0, plants.len()) };
            let wanted =
                Counts { created: created as u64, replaced: replaced as u64, ..Counts::default() };
            let told = self.send(&client, "POST", PATH, media_type, &body, |answer| {
                answer.assert_report(wanted);
            });
            if matches!(told, Told::Success) {
                self.count(plants.iter());
                plants.into_iter().for_each(|plant| ledger.acknowledge(plant.id, Some(plant)));
            } else {
                plants.into_iter().for_each(|plant| ledger.doubt(plant.id, Some(plant)));
            }
            if !matches!(told, Told::Success) {
                break;
            }
        }
        ledger
    }

    /// Sends a write, and holds the answer against what it may be. One that is sent when a failure is
    /// known must not succeed.
    fn send(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        media_type: &str,
        body: &str,
        assert_success: impl Fn(&Answer),
    ) -> Told {
        let is_known_to_fail = self.failed.get().is_some();
        let Ok(answer) = client.try_send(method, path, &[("content-type", media_type)], body)
        else {
            wait_for("a reason not to answer", || self.failed.get().copied());
            return Told::Nothing;
        };
        if answer.status != 503 {
            assert!(!is_known_to_fail, "the store had failed before: {answer:?}");
            assert_success(&answer);
            return Told::Success;
        }
        answer.assert_error(503, 5002);
        let retry_after = answer.header("retry-after").and_then(|text| text.parse::<u32>().ok());
        assert!(retry_after.is_some(), "when to try again is not told: {answer:?}");
        self.failed.get_or_init(Instant::now);
        Told::Failed
    }

    /// Counts what was acknowledged.
    fn count<'a>(&self, plants: impl Iterator<Item = &'a NewPlant>) {
        let bytes: usize = plants.map(|plant| plant.json().len()).sum();
        let before = self.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if before > ENOUGH_BYTES {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// When `/readyz` was not 200 any more, which it must have said.
    fn wait_until_not_ready(&self) -> Instant {
        let client = Client::new(self.address, Some(TOKEN));
        while !self.stop.load(Ordering::Relaxed) {
            let answer = client.get("/readyz");
            if answer.status != 200 {
                assert_eq!(answer.status, 503, "{answer:?}");
                return Instant::now();
            }
            thread::sleep(Duration::from_millis(10));
        }
        Instant::now()
    }
}

/// A plant of about 2 KB, that no other round writes.
pub(super) fn long_plant(id: i64, round: i64) -> NewPlant {
    let long = |text: String| format!("{text:🌱<255}");
    let tag = long(format!("tag {} ", round % 7));
    NewPlant::new(id, &long(format!("plant {id} of round {round} ")), Some(&tag))
}
