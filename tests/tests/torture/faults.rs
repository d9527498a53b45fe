//! Panics and kills at each step of a commit, of the close and of the opening, at the fault points of a
//! program that is built for these tests alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{Figures, chance, times};
use plantd_tests::{
    Client, Launch, Ledgers, Plants, TestServer, Told, plant_body, store_of, wait_for, wait_until,
};

use super::FEW_CHANGES_IN_MEMORY;

/// What a panic says in these tests.
const PANIC: &str = "as a test wants it";

/// So few events are kept that they are removed all the time.
const KEEP_EVENTS: &str = "16";

const DRAIN_DELAY: Duration = Duration::from_secs(2);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// By then `/readyz` says that the store failed.
const READY_DEADLINE: Duration = Duration::from_secs(1);

const CLIENTS: i64 = 4;

/// How many rows an import has at most: so many that a few imports fill a segment of the journal.
const MOST_ROWS: usize = 256;

/// How many changes there are before anything is disturbed.
const CHANGES_BEFORE: u64 = 1000;

/// A step that a test may disturb.
#[derive(Clone, Copy, Debug)]
struct Point {
    name: &'static str,
    /// The name of the thread that is disturbed there.
    thread: &'static str,
    /// How often it comes there surely; one of these times is chosen.
    passes: u32,
}

const fn point(name: &'static str, thread: &'static str, passes: u32) -> Point {
    Point { name, thread, passes }
}

const COMMIT_THREAD: &str = "plant-commit";
const FOLD_THREAD: &str = "plant-compact";
const OPENING_THREAD: &str = "main";

/// The steps of the commit and of the folds that follow from it, in their order.
const COMMIT: [Point; 20] = [
    point("before-decision", COMMIT_THREAD, 50),
    point("before-segment-switch", COMMIT_THREAD, 4),
    point("after-segment-switch", COMMIT_THREAD, 4),
    point("before-journal-write", COMMIT_THREAD, 50),
    point("before-journal-sync", COMMIT_THREAD, 50),
    point("after-journal", COMMIT_THREAD, 50),
    point("after-shown", COMMIT_THREAD, 50),
    point("before-answers", COMMIT_THREAD, 50),
    point("before-answers", COMMIT_THREAD, 2),
    point("after-fold-step", FOLD_THREAD, 100),
    point("after-plants", FOLD_THREAD, 4),
    point("before-events", FOLD_THREAD, 4),
    point("after-events", FOLD_THREAD, 4),
    point("before-state", FOLD_THREAD, 4),
    point("before-old-events-removed", FOLD_THREAD, 3),
    point("before-checkpoint-flush", FOLD_THREAD, 4),
    point("before-checkpoint-sync", FOLD_THREAD, 4),
    point("after-checkpoint-sync", FOLD_THREAD, 4),
    point("before-folded", FOLD_THREAD, 4),
    point("after-folded", FOLD_THREAD, 4),
];

/// The steps of the close.
const CLOSE: [Point; 4] = [
    point("before-last-fold", COMMIT_THREAD, 1),
    point("before-checkpoint-flush", FOLD_THREAD, 1),
    point("before-checkpoint-sync", FOLD_THREAD, 1),
    point("after-checkpoint-sync", FOLD_THREAD, 1),
];

/// The steps in which a new database is made, in their order.
const MAKE: [Point; 6] = [
    point("before-journal-made", OPENING_THREAD, 1),
    point("after-segment-made", OPENING_THREAD, 2),
    point("after-unfinished-opened", OPENING_THREAD, 1),
    point("after-format", OPENING_THREAD, 1),
    point("before-rename", OPENING_THREAD, 1),
    point("after-rename", OPENING_THREAD, 1),
];

/// The steps of each opening, in their order.
const OPEN: [Point; 6] = [
    point("after-sled-opened", OPENING_THREAD, 1),
    point("after-replay", OPENING_THREAD, 1),
    point("before-checkpoint-flush", OPENING_THREAD, 1),
    point("before-checkpoint-sync", OPENING_THREAD, 1),
    point("after-checkpoint-sync", OPENING_THREAD, 1),
    point("before-opened", OPENING_THREAD, 1),
];

/// The steps in which an opening applies the journal again, and what it has to do more often.
const REPLAY: [Point; 5] = [
    point("after-fold-step", OPENING_THREAD, 5),
    point("after-plants", OPENING_THREAD, 1),
    point("before-events", OPENING_THREAD, 1),
    point("after-events", OPENING_THREAD, 1),
    point("before-state", OPENING_THREAD, 1),
];

/// How many places these are: some stand there twice.
fn places<'a>(points: impl IntoIterator<Item = &'a Point>) -> usize {
    points.into_iter().map(|point| point.name).collect::<BTreeSet<_>>().len()
}

/// Where requests are disturbed.
const HANDLER: &str = "in-handler";

impl Point {
    /// What makes a panic of one of its passes.
    fn panics(self, chance: &mut fastrand::Rng) -> String {
        format!("{}panic({PANIC})", self.first_passes(chance))
    }

    /// What stops the thread that passes it, for good.
    fn stops(self, chance: &mut fastrand::Rng) -> String {
        format!("{}return", self.first_passes(chance))
    }

    fn first_passes(self, chance: &mut fastrand::Rng) -> String {
        format!("{}@{}={}*off->", self.name, self.thread, chance.u32(..self.passes))
    }

    /// What the log says when a thread has stopped there.
    fn sign(self) -> String {
        format!("stopped at the fault point {}", self.name)
    }
}

/// A server with small limits in which this happens.
fn launch(faults: &str) -> Launch {
    Launch::new()
        .faults(&format!("{FEW_CHANGES_IN_MEMORY};{faults}"))
        .environment("PLANTD_KEEP_EVENTS", KEEP_EVENTS)
        // The log is searched all the time.
        .environment("RUST_LOG", "warn")
        .environment("PLANTD_DRAIN_DELAY", format!("{}s", DRAIN_DELAY.as_secs()))
        .environment("PLANTD_DRAIN_TIMEOUT", format!("{}s", DRAIN_TIMEOUT.as_secs()))
}

/// A server that is disturbed again and again, and the clients that know what it has to hold.
struct Ordeal {
    server: TestServer,
    ledgers: Ledgers,
    chance: fastrand::Rng,
}

impl Ordeal {
    /// A server whose clients have written a little, and that was killed then: the next opening brings
    /// the tags to the disk, and after that there are old events to remove.
    fn begin(chance: fastrand::Rng) -> Self {
        let server = TestServer::start_with(launch(""));
        let ledgers = Ledgers::of_clients(CLIENTS, MOST_ROWS);
        let mut ordeal = Self { server, ledgers, chance };
        ordeal.while_written(|server| {
            let client = server.client();
            wait_until("some changes", || {
                let answer = client.read(0);
                answer.status == 200 && answer.revision() > CHANGES_BEFORE
            });
            server.kill();
        });
        ordeal
    }

    /// Restarts the server, which has ended, like this, and claims that it has what it has to.
    fn check_restart(&mut self, launch: Launch) {
        self.server.restart_with(launch);
        self.ledgers.compare_and_settle(&store_of(&self.server.client(), "after a fault"));
    }

    /// Disturbs the server, to its end, while all clients write and another one reads. Says what each
    /// was told last.
    fn while_written(&mut self, disturb: impl FnOnce(&mut TestServer)) -> Vec<Told> {
        let client = self.server.client();
        thread::scope(|scope| {
            let reading = scope.spawn(|| read_until_gone(&client));
            let (server, chance) = (&mut self.server, &mut self.chance);
            let told = self.ledgers.write(server, chance, || Told::is_in_doubt, disturb);
            self.ledgers.see(&reading.join().expect("it reads"));
            told
        })
    }

    /// Restarts the server, which has ended, ends it well, and has everything on its disk compared. Says
    /// how many writes were acknowledged.
    fn end(mut self) -> u64 {
        self.check_restart(launch(""));
        assert_eq!(self.server.terminate().code(), Some(0), "{}", self.server.stderr());
        self.server.verify();
        self.ledgers.acknowledged()
    }
}

/// The newest plants that reads have shown.
fn read_until_gone(client: &Client) -> Plants {
    let mut shown = Plants::new();
    // Only one thread of the server writes, so a later list shows later plants.
    while let Ok(answer) = client.try_send("GET", "/plants?limit=60", &[], "") {
        shown.extend(answer.plants().into_iter().map(|plant| (plant.id, plant)));
    }
    shown
}

/// Does something for each of them, as often as is said, on a few threads: each has a server of its own,
/// which goes from one ordeal into the next.
fn for_each<T: Sync>(
    cases: &[T],
    rounds: u32,
    threads: usize,
    act: impl Fn(&mut Ordeal, &T) + Sync,
) -> (usize, u64) {
    let mut chance = chance();
    let mut all: Vec<&T> = (0..rounds).flat_map(|_| cases).collect();
    chance.shuffle(&mut all);
    let acknowledged = AtomicU64::new(0);
    thread::scope(|scope| {
        for cases in all.chunks(all.len().div_ceil(threads)) {
            let (chance, act, acknowledged) = (chance.fork(), &act, &acknowledged);
            scope.spawn(move || {
                let mut ordeal = Ordeal::begin(chance);
                cases.iter().for_each(|case| act(&mut ordeal, case));
                acknowledged.fetch_add(ordeal.end(), Ordering::Relaxed);
            });
        }
    });
    (all.len(), acknowledged.into_inner())
}

/// Starts a server on this folder, and kills it when it has stopped there or become ready. Says whether
/// it stopped.
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
fn a_panic_in_a_handler_is_a_500_that_tells_nothing_and_harms_nobody_else() {
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
    let (panics, acknowledged) = for_each(&COMMIT, times(1, 4), 4, |ordeal, point| {
        let faults = point.panics(&mut ordeal.chance);
        ordeal.check_restart(launch(&faults));
        let ends = ordeal.while_written(|server| check_failure(server, &faults));
        let is_told = ends.iter().all(|end| *end == Told::StoreFailed);
        assert!(is_told, "{faults}: {ends:?}");
        ordeal.server.process().assert_exit_code(74);
        let stderr = ordeal.server.stderr();
        assert!(stderr.contains(PANIC), "{stderr}");
    });
    Figures::of("faults", "a panic in a commit loses nothing that was acknowledged")
        .with(panics, &format!("panics at {} places of a commit", places(&COMMIT)))
        .with(acknowledged, "acknowledged writes, 0 lost")
        .print();
}

/// Claims that a panic in the store is told of at once, and ends the server in time.
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
    assert!(took < limit, "{faults}: it took {took:?} to end");
}

#[test]
fn a_panic_while_the_store_is_closed_is_not_taken_for_a_good_end() {
    let (panics, acknowledged) = for_each(&CLOSE, times(1, 4), 2, |ordeal, point| {
        let faults = point.panics(&mut ordeal.chance);
        ordeal.check_restart(launch(&faults));
        // Too little for a checkpoint before the last one.
        ordeal.server.client().put(-1, r#"{"name":"Rosa"}"#).assert_made("Rosa", None);
        ordeal.server.client().delete(-1).assert_no_content();
        ordeal.server.process().send_terminate();
        ordeal.server.process().assert_exit_code(74);
        let stderr = ordeal.server.stderr();
        assert!(stderr.contains(PANIC), "{stderr}");
    });
    Figures::of("faults", "a panic while the store is closed is told of, and loses nothing")
        .with(panics, &format!("panics at {} places of the close", places(&CLOSE)))
        .with(acknowledged, "acknowledged writes, 0 lost")
        .print();
}

#[test]
fn a_kill_at_any_step_of_a_commit_and_of_the_openings_after_it_loses_nothing() {
    let stopped_at = Mutex::new(BTreeSet::new());
    let openings = AtomicU64::new(0);
    let (kills, acknowledged) = for_each(&COMMIT, times(1, 4), 2, |ordeal, point| {
        let faults = point.stops(&mut ordeal.chance);
        ordeal.check_restart(launch(&faults));
        let ends = ordeal.while_written(|server| {
            wait_until(&faults, || server.stderr().contains(&point.sign()));
            server.kill();
        });
        assert!(ends.iter().all(|end| *end == Told::Nothing), "{faults}: {ends:?}");
        let mut steps: Vec<Point> = OPEN.into_iter().chain(REPLAY).collect();
        ordeal.chance.shuffle(&mut steps);
        for point in &steps[..4] {
            let faults = point.stops(&mut ordeal.chance);
            if kill_while_opened(ordeal.server.data(), *point, &faults) {
                stopped_at.lock().expect("nobody has panicked").insert(point.name);
                openings.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let stopped_at = stopped_at.into_inner().expect("nobody has panicked");
    for Point { name, .. } in OPEN.iter().chain(&REPLAY) {
        assert!(stopped_at.contains(name), "no opening was killed at {name}");
    }
    Figures::of("faults", "a kill in a commit or in the openings after it loses nothing")
        .with(kills, &format!("kills at {} places of a commit", places(&COMMIT)))
        .with(
            openings.into_inner(),
            &format!("kills at {} places of the openings after them", stopped_at.len()),
        )
        .with(acknowledged, "acknowledged writes, 0 lost")
        .print();
}

#[test]
fn a_kill_or_a_panic_at_any_step_of_the_first_opening_leaves_nothing_in_the_way() {
    let mut chance = chance();
    let rounds = times(1, 4);
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
    Figures::of("faults", "a kill or a panic in the first opening leaves nothing in the way")
        .with(
            rounds * points * 2,
            &format!("kills at {} places of the first opening", places(MAKE.iter().chain(&OPEN))),
        )
        .with(rounds * points, "panics there, 0 folders that do not open")
        .print();
}

#[test]
fn each_fault_point_of_the_product_is_disturbed_here() {
    let tables = [&COMMIT[..], &CLOSE, &MAKE, &OPEN, &REPLAY];
    let mut disturbed: BTreeSet<String> =
        tables.iter().flat_map(|table| table.iter()).map(|point| point.name.to_owned()).collect();
    disturbed.insert(HANDLER.to_owned());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut points = BTreeSet::new();
    find_points(&crates, &mut points);
    assert_eq!(points, disturbed);
}

/// The names of the fault points in the Rust files of a folder.
fn find_points(folder: &Path, points: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            find_points(&path, points);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("it is text");
            let calls = text.split("fault::point(\"").skip(1);
            points.extend(calls.filter_map(|call| Some(call.split_once('"')?.0.to_owned())));
        }
    }
}
