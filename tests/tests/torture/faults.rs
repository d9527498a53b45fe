//! Panics and kills at each step of a commit, of a close and of an opening: at the fault points of a program built
//! for this.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use plantd_tests::torture::{Report, chance, is_long, times};
use plantd_tests::{
    Client, Launch, Plants, TestServer, WriteOutcome, files_below, plant_body, repository,
    wait_for, wait_until,
};

use crate::{Ordeal, SMALL_LIMITS, Totals, archive};

const PANIC: &str = "the panic of a test";

/// Forgets old events all the time.
const KEEP_EVENTS: &str = "16";

const DRAIN_DELAY: Duration = Duration::from_secs(2);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest time until `/readyz` reports a failure.
const READY_DEADLINE: Duration = Duration::from_secs(1);

const CLIENTS: i64 = 4;

/// The most rows of an import: a few imports fill a segment of the write-ahead log.
const MOST_ROWS: usize = 256;

const CHANGES_BEFORE: u64 = 1000;

/// A fault point.
#[derive(Clone, Copy, Debug)]
struct Point {
    name: &'static str,
    /// The thread that passes the point.
    thread: &'static str,
    /// How many times the thread passes the point, at least. One of these passes is chosen at random.
    passes: u32,
}

const fn point(name: &'static str, thread: &'static str, passes: u32) -> Point {
    Point { name, thread, passes }
}

const COMMIT_THREAD: &str = "plant-commit";
const COMPACTION_THREAD: &str = "plant-compact";
const MERGE_THREAD: &str = "plant-merge";
const OPENING_THREAD: &str = "main";

/// The steps of a commit, and of the flush and the merges that follow it, in their order.
const COMMIT: [Point; 28] = [
    point("before-decision", COMMIT_THREAD, 50),
    point("before-segment-switch", COMMIT_THREAD, 4),
    point("after-segment-switch", COMMIT_THREAD, 4),
    point("before-log-write", COMMIT_THREAD, 50),
    point("before-log-sync", COMMIT_THREAD, 50),
    point("after-log-append", COMMIT_THREAD, 50),
    point("after-shown", COMMIT_THREAD, 50),
    point("before-answers", COMMIT_THREAD, 50),
    point("before-answers", COMMIT_THREAD, 2),
    point("before-table-write", COMPACTION_THREAD, 4),
    point("before-table-seal", COMPACTION_THREAD, 4),
    point("before-table-sync", COMPACTION_THREAD, 4),
    point("after-table-sync", COMPACTION_THREAD, 4),
    point("before-table-open", COMPACTION_THREAD, 4),
    point("before-file-write", COMPACTION_THREAD, 4),
    point("before-file-sync", COMPACTION_THREAD, 4),
    point("before-file-rename", COMPACTION_THREAD, 4),
    point("after-file-rename", COMPACTION_THREAD, 4),
    point("after-flush", COMPACTION_THREAD, 4),
    point("in-merge", MERGE_THREAD, 4),
    point("before-table-seal", MERGE_THREAD, 2),
    point("before-table-sync", MERGE_THREAD, 2),
    point("after-table-sync", MERGE_THREAD, 2),
    point("before-table-open", MERGE_THREAD, 2),
    point("before-merge-shown", COMPACTION_THREAD, 2),
    point("before-input-removed", COMPACTION_THREAD, 4),
    point("before-table-removed", COMPACTION_THREAD, 4),
    point("after-merge", COMPACTION_THREAD, 2),
];

const CLOSE: [Point; 3] = [
    point("before-last-flush", COMMIT_THREAD, 1),
    point("before-table-write", COMPACTION_THREAD, 1),
    point("after-flush", COMPACTION_THREAD, 1),
];

/// The steps that make a new database, in their order.
const MAKE: [Point; 6] = [
    point("before-log-made", OPENING_THREAD, 1),
    point("after-segment-made", OPENING_THREAD, 2),
    point("before-file-write", OPENING_THREAD, 1),
    point("before-file-sync", OPENING_THREAD, 1),
    point("before-file-rename", OPENING_THREAD, 1),
    point("after-file-rename", OPENING_THREAD, 1),
];

/// The steps of an opening that finds changes in the write-ahead log alone, and tables left by a kill, in order.
const RECOVERY: [Point; 12] = [
    point("before-table-write", OPENING_THREAD, 1),
    point("before-table-open", OPENING_THREAD, 1),
    point("before-table-seal", OPENING_THREAD, 1),
    point("before-table-sync", OPENING_THREAD, 1),
    point("after-table-sync", OPENING_THREAD, 1),
    point("before-file-write", OPENING_THREAD, 1),
    point("before-file-sync", OPENING_THREAD, 1),
    point("before-file-rename", OPENING_THREAD, 1),
    point("after-file-rename", OPENING_THREAD, 1),
    point("after-replay", OPENING_THREAD, 1),
    point("before-other-table-removed", OPENING_THREAD, 1),
    point("before-opened", OPENING_THREAD, 1),
];

/// The steps of every opening.
const OPEN: [Point; 2] =
    [point("after-replay", OPENING_THREAD, 1), point("before-opened", OPENING_THREAD, 1)];

/// The number of distinct fault points.
fn places<'a>(points: impl IntoIterator<Item = &'a Point>) -> usize {
    points.into_iter().map(|point| point.name).collect::<BTreeSet<_>>().len()
}

const HANDLER: &str = "in-handler";

impl Point {
    /// A fault that panics at one of the passes.
    fn panics(self, chance: &mut Rng) -> String {
        format!("{}panic({PANIC})", self.first_passes(chance))
    }

    /// A fault that stops the thread forever at one of the passes.
    fn stops(self, chance: &mut Rng) -> String {
        format!("{}return", self.first_passes(chance))
    }

    fn first_passes(self, chance: &mut Rng) -> String {
        format!("{}@{}={}*off->", self.name, self.thread, chance.u32(..self.passes))
    }

    /// What the log says when a thread has stopped there.
    fn sign(self) -> String {
        format!("stopped at the fault point {}", self.name)
    }
}

/// A server with small limits and these faults. Every fourth server may forget events that followers have not read.
fn launch(faults: &str) -> Launch {
    let launch = Launch::new();
    let forgets = fastrand::u8(..4) == 0;
    let launch = if forgets { launch.keep_only_events(KEEP_EVENTS) } else { launch };
    launch
        .faults(&format!("{SMALL_LIMITS};{faults}"))
        // A short log, since the tests search it all the time.
        .environment("RUST_LOG", "warn")
        .environment("PLANTD_DRAIN_DELAY", format!("{}s", DRAIN_DELAY.as_secs()))
        .environment("PLANTD_DRAIN_TIMEOUT", format!("{}s", DRAIN_TIMEOUT.as_secs()))
}

/// Lets clients write a little, and kills the server: the next opening has a write-ahead log to replay, and old
/// events to remove.
fn begin(chance: Rng) -> Ordeal {
    let mut ordeal = Ordeal::begin(launch(""), CLIENTS, MOST_ROWS, chance);
    while_written(&mut ordeal, |server| {
        let client = server.client();
        wait_until("some changes", || {
            let answer = client.read(0);
            answer.status == 200 && answer.revision() > CHANGES_BEFORE
        });
        server.kill();
    });
    ordeal
}

/// Disturbs the server, which must end, while all clients write and another one reads. Returns the last outcome of
/// each client.
fn while_written(ordeal: &mut Ordeal, disturb: impl FnOnce(&mut TestServer)) -> Vec<WriteOutcome> {
    let client = ordeal.server.client();
    thread::scope(|scope| {
        let reading = scope.spawn(|| read_until_gone(&client));
        let told = ordeal.disturb(disturb);
        ordeal.ledgers.see(&reading.join().expect("the reader does not panic"));
        told
    })
}

/// The newest plants that reads have shown.
fn read_until_gone(client: &Client) -> Plants {
    let mut shown = Plants::new();
    // The server has one writer, so later lists show later plants.
    while let Ok(answer) = client.try_send("GET", "/plants?limit=60", &[], "") {
        shown.extend(answer.plants().into_iter().map(|plant| (plant.id, plant)));
    }
    shown
}

/// Runs a check for each point, this many times, on a few threads with a server each. Returns the number of points,
/// and how much could have been lost.
fn for_each(
    points: &[Point],
    rounds: u32,
    threads: usize,
    act: impl Fn(&mut Ordeal, &Point) + Sync,
) -> (usize, Totals) {
    let mut chance = chance();
    let mut all: Vec<&Point> = (0..rounds).flat_map(|_| points).collect();
    chance.shuffle(&mut all);
    let totals = thread::scope(|scope| {
        let chunks = all.chunks(all.len().div_ceil(threads)).map(|points| {
            let (chance, act) = (chance.fork(), &act);
            scope.spawn(move || {
                let mut ordeal = begin(chance);
                for point in points {
                    // This start without faults compares everything: one with a fault may end before.
                    ordeal.restart(launch(""));
                    ordeal.followers.set_servers([]);
                    ordeal.server.kill();
                    act(&mut ordeal, point);
                }
                ordeal.restart(launch(""));
                ordeal.end()
            })
        });
        let chunks: Vec<_> = chunks.collect();
        chunks.into_iter().map(|chunk| chunk.join().expect("nothing was lost")).sum()
    });
    (all.len(), totals)
}

/// Starts a server on this folder, and kills it once it has stopped at the point or is ready. Returns whether it
/// stopped.
fn kill_while_opened(data: &Path, point: Point, faults: &str) -> bool {
    let mut process = launch(faults).data(data).spawn();
    let sign = point.sign();
    let stopped = wait_for("the server to stop or to be ready", || {
        let stopped = process.stderr().contains(&sign);
        (stopped || process.stdout().contains("listening")).then_some(stopped)
    });
    process.kill();
    stopped
}

#[test]
fn a_panic_in_a_handler_is_a_500_without_details_and_affects_no_other_request() {
    const REQUEST_ID: &str = "the-request-that-panics";
    let server = TestServer::start_with(launch(&format!("{HANDLER}=2*panic({PANIC})->off")));
    let client = server.client();
    let mut connection = server.connect();
    let request = plantd_tests::create_request(&plant_body(1, "Rosa", None));
    connection.send(request.replace("Host:", &format!("X-Request-Id: {REQUEST_ID}\r\nHost:")));
    for answer in [connection.receive(), client.create(2, "Rosa", None)] {
        let message = answer.assert_error(500, 5001);
        assert!(!message.contains(PANIC) && !message.contains("panic"), "{message}");
    }
    wait_until("a line in the log for the panic, and one for the request", || {
        let log = server.stderr();
        let mut lines = log.lines();
        let is_error = |line: &str| line.contains("ERROR");
        log.contains(PANIC) && lines.any(|line| is_error(line) && line.contains(REQUEST_ID))
    });
    connection.send(request);
    connection.receive().assert_plant("Rosa", None);
    client.create(2, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(client.get("/readyz").status, 200);
}

#[test]
fn a_panic_at_any_step_of_a_commit_ends_the_server_and_nothing_that_was_acknowledged_is_lost() {
    // The short form panics at some of the steps, and kills at all of them in another test.
    let mut steps = COMMIT;
    fastrand::shuffle(&mut steps);
    let steps = if is_long() { &steps[..] } else { &steps[..COMMIT.len() / 2] };
    let (panics, totals) = for_each(steps, times(1, 24), 4, |ordeal, point| {
        let faults = point.panics(&mut ordeal.chance);
        ordeal.start(launch(&faults));
        let ends = while_written(ordeal, |server| check_failure(server, &faults));
        let is_told = ends.iter().all(|end| *end == WriteOutcome::StoreFailed);
        assert!(is_told, "{faults}: {ends:?}");
        ordeal.server.process().assert_exit_code(74);
        let stderr = ordeal.server.stderr();
        assert!(stderr.contains(PANIC), "{stderr}");
    });
    Report {
        test: "faults",
        promise: "A panic in a commit ends the server and loses no acknowledged write",
        disturbances: format!("{panics} panics at {} steps of a commit", places(steps)),
        losses: totals.losses(),
        details: "`/readyz` told within 1 s, and the server ended with 74".to_owned(),
    }
    .print();
}

/// Asserts that the server reports a panic in the store at once, and ends in time.
fn check_failure(server: &mut TestServer, faults: &str) {
    let client = server.client();
    wait_until("a panic", || server.stderr().contains(PANIC));
    let panicked = Instant::now();
    while client.get("/readyz").status == 200 {
        assert!(panicked.elapsed() < READY_DEADLINE, "{faults}: /readyz is 200 after a panic");
    }
    let late = client.create(-1, "late", None);
    late.assert_error(503, 5002);
    assert!(late.header("retry-after").is_some(), "{late:?}");
    client.read(-1).assert_error(404, 3002);
    wait_until("the end", || !server.process().is_running());
    let took = panicked.elapsed();
    let limit = DRAIN_DELAY + DRAIN_TIMEOUT + Duration::from_secs(1);
    assert!(took < limit, "{faults}: the server took {took:?} to end");
}

#[test]
fn a_panic_while_the_store_closes_is_reported_and_loses_nothing() {
    let (panics, totals) = for_each(&CLOSE, times(1, 167), 2, |ordeal, point| {
        let faults = point.panics(&mut ordeal.chance);
        ordeal.start(launch(&faults));
        // Too few changes for a flush before the close.
        ordeal.server.client().put(-1, r#"{"name":"Rosa"}"#).assert_made("Rosa", None);
        ordeal.server.client().delete(-1).assert_no_content();
        ordeal.server.process().send_terminate();
        ordeal.server.process().assert_exit_code(74);
        ordeal.followers.set_servers([]);
        let stderr = ordeal.server.stderr();
        assert!(stderr.contains(PANIC), "{stderr}");
    });
    Report {
        test: "faults",
        promise: "A panic while the store closes is reported and loses no acknowledged write",
        disturbances: format!("{panics} panics at {} steps of the close", places(&CLOSE)),
        losses: totals.losses(),
        details: "the server ended with 74".to_owned(),
    }
    .print();
}

#[test]
fn a_kill_at_any_step_of_a_commit_and_of_the_openings_after_it_loses_nothing() {
    let stopped_at = Mutex::new(BTreeSet::new());
    let openings = AtomicU64::new(0);
    let (kills, totals) = for_each(&COMMIT, times(1, 24), 4, |ordeal, point| {
        let faults = point.stops(&mut ordeal.chance);
        ordeal.start(launch(&faults));
        let ends = while_written(ordeal, |server| {
            wait_until(&faults, || server.stderr().contains(&point.sign()));
            server.kill();
        });
        assert!(ends.iter().all(|end| *end == WriteOutcome::NoAnswer), "{faults}: {ends:?}");
        let mut steps: Vec<usize> = (0..RECOVERY.len()).collect();
        ordeal.chance.shuffle(&mut steps);
        steps.truncate(4);
        // In order, because an opening killed at a step leaves the later steps to the next opening.
        steps.sort_unstable();
        for point in steps.into_iter().map(|step| &RECOVERY[step]) {
            let faults = point.stops(&mut ordeal.chance);
            if kill_while_opened(ordeal.server.data(), *point, &faults) {
                stopped_at.lock().expect("no thread has panicked").insert(point.name);
                openings.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let stopped_at = stopped_at.into_inner().expect("no thread has panicked");
    for Point { name, .. } in &RECOVERY {
        assert!(stopped_at.contains(name), "no opening was killed at {name}");
    }
    Report {
        test: "faults",
        promise: "A kill in a commit or in the openings after it loses no acknowledged write",
        disturbances: format!(
            "{kills} kills at {} steps of a commit, {} at {} steps of the openings after them",
            places(&COMMIT),
            openings.into_inner(),
            stopped_at.len()
        ),
        losses: totals.losses(),
        details: format!("{CLIENTS} clients on each server"),
    }
    .print();
}

#[test]
fn a_kill_or_a_panic_at_any_step_of_the_first_opening_leaves_nothing_in_the_way() {
    let mut chance = chance();
    let rounds = times(1, 63);
    for _ in 0..rounds {
        let one_after_the_other = TestServer::start_prepared(launch(""), "data", |data| {
            for point in MAKE.iter().chain(&OPEN) {
                let faults = point.stops(&mut chance);
                assert!(kill_while_opened(data, *point, &faults), "{faults}");
            }
        });
        one_after_the_other.client().create(1, "Rosa", None).assert_plant("Rosa", None);
        for point in MAKE.iter().chain(&OPEN) {
            let mut server = TestServer::start_prepared(launch(""), "data", |data| {
                let faults = point.panics(&mut chance);
                let mut process = launch(&faults).data(data).spawn();
                process.assert_exit_code(74);
                assert!(process.stderr().contains(PANIC), "{}", process.stderr());
                let faults = point.stops(&mut chance);
                let stops = kill_while_opened(data, *point, &faults);
                let is_behind = MAKE.iter().any(|made| made.name == point.name);
                assert!(stops || is_behind, "{faults}");
            });
            server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
            server.kill();
            server.restart_with(Launch::new());
            server.client().read(1).assert_new_plant(1, "Rosa", None);
        }
    }
    let points = u32::try_from(MAKE.len() + OPEN.len()).expect("a few");
    Report {
        test: "faults",
        promise: "A kill or a panic in the first opening is not in the way of the next one",
        disturbances: format!(
            "{} kills and {} panics at {} steps of the first opening",
            rounds * points * 2,
            rounds * points,
            places(MAKE.iter().chain(&OPEN))
        ),
        losses: format!("0 of {} folders were unusable", rounds * (points + 1)),
        details: "each folder served afterwards".to_owned(),
    }
    .print();
}

#[test]
fn these_tests_disturb_every_fault_point_of_the_product() {
    let tables = [&COMMIT[..], &CLOSE, &MAKE, &RECOVERY];
    let mut disturbed: BTreeSet<String> =
        tables.iter().flat_map(|table| table.iter()).map(|point| point.name.to_owned()).collect();
    disturbed.insert(HANDLER.to_owned());
    disturbed.extend(archive::POINTS.map(|(name, _)| name.to_owned()));
    let sources = files_below(&repository("crates"));
    let is_rust = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let mut points = BTreeSet::new();
    for path in sources.iter().filter(is_rust) {
        let text = fs::read_to_string(path).expect("the source is UTF-8");
        let calls = text.split("fault::point(\"").skip(1);
        points.extend(calls.filter_map(|call| Some(call.split_once('"')?.0.to_owned())));
    }
    assert_eq!(points, disturbed);
}
