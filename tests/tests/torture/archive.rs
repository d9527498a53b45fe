//! Kills and panics at each step of the thread that writes an archive, and of the one that merges its pieces.

use std::fs;
use std::path::{Path, PathBuf};

use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{
    Client, Launch, Scrape, TestServer, change_in, revision_of, store_of, wait_until,
    wait_until_archived,
};
use tempfile::TempDir;

use crate::SMALL_LIMITS;

/// Makes merges of few pieces frequent. The write-ahead log has the usual size, so that nothing in it is overwritten
/// before a test notices that the archive hangs.
const SMALL_MERGES: &str = "archive-merge-interval-ms=return(50);pieces-of-a-merge=return(3)";

const PANIC: &str = "the panic of a test";

const ARCHIVE_THREAD: &str = "plant-archive";
const MERGE_THREAD: &str = "plant-pieces";

/// The plant that clients replace again and again.
const PLANT: i64 = 7;

/// The fault points of an archive, and the threads that pass them.
pub(crate) const POINTS: [(&str, &str); 9] = [
    ("before-file-write", ARCHIVE_THREAD),
    ("before-file-sync", ARCHIVE_THREAD),
    ("before-file-rename", ARCHIVE_THREAD),
    ("after-file-rename", ARCHIVE_THREAD),
    ("before-file-write", MERGE_THREAD),
    ("before-file-sync", MERGE_THREAD),
    ("before-file-rename", MERGE_THREAD),
    ("after-file-rename", MERGE_THREAD),
    ("before-covered-piece-removed", MERGE_THREAD),
];

/// A folder with an archive and a backup of the empty store, and a server, which has ended.
struct Stage {
    folder: TempDir,
    server: TestServer,
    written: u64,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let archive = folder.path().join("archive");
        let mut server = TestServer::start_with(launch(&archive, SMALL_MERGES));
        let url = format!("http://{}", server.address());
        let backup = folder.path().join("backup");
        let back_up = Launch::new().arguments(["backup", "--url", &url]).arguments([&backup]);
        back_up.spawn().assert_exit_code(0);
        server.kill();
        Self { folder, server, written: 0 }
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    fn start(&mut self, faults: &str) -> Client {
        self.server.restart_with(launch(&self.archive(), faults));
        self.server.client()
    }

    /// Replaces the plant until the server's log has these words, and then a few times more.
    fn write_until_told(&mut self, client: &Client, words: &str) {
        wait_until(words, || {
            self.written += 1;
            let answer = client.put(PLANT, &format!("{{\"name\":\"Rosa {}\"}}", self.written));
            assert!([200, 201].contains(&answer.status), "{answer:?}");
            self.server.stderr().contains(words)
        });
    }

    /// Runs a command on the backup and the archive, which must be whole. Returns the revision up to which they go.
    fn newest_by(&self, arguments: &[&str]) -> u64 {
        let launch =
            Launch::new().arguments(arguments).arguments([self.folder.path().join("backup")]);
        let mut process =
            launch.arguments(["--archive".as_ref(), self.archive().as_os_str()]).spawn();
        process.assert_exit_code(0);
        revision_of(change_in(&format!("{}{}", process.stdout(), process.stderr())))
    }

    fn pieces(&self) -> usize {
        let names = fs::read_dir(self.archive()).expect("a folder can be read");
        let names = names.map(|entry| entry.expect("reads").file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".wal")).count()
    }
}

fn launch(archive: &Path, faults: &str) -> Launch {
    Launch::new()
        .faults(faults)
        .arguments(["--archive-required", "--archive"])
        .arguments([archive])
        // A short log, since the tests search it all the time.
        .environment("RUST_LOG", "warn,plant_store=info")
}

fn fault((name, thread): (&str, &str), action: &str) -> String {
    let limits = if thread == MERGE_THREAD { SMALL_LIMITS } else { SMALL_MERGES };
    format!("{limits};{name}@{thread}={action}")
}

#[test]
fn a_kill_at_any_step_of_a_piece_or_of_a_merge_of_pieces_loses_nothing() {
    let mut chance = chance();
    let mut stage = Stage::new();
    let rounds = times(1, 40);
    for _ in 0..rounds {
        let mut points = POINTS;
        chance.shuffle(&mut points);
        for point in points {
            let faults = fault(point, &format!("{}*off->return", chance.u32(..times(2, 4))));
            let client = stage.start(&faults);
            let archived = Scrape::of(&client).value("plantd_archived_revision");
            stage.write_until_told(&client, &format!("stopped at the fault point {}", point.0));
            stage.server.kill();
            let left_by_kill = stage.newest_by(&["verify"]);
            assert!(left_by_kill as f64 >= archived, "{faults}: {left_by_kill} of {archived}");
            let client = stage.start(SMALL_MERGES);
            wait_until_archived(&client);
            let revision = client.read(PLANT).revision();
            assert_eq!(stage.newest_by(&["verify"]), revision, "{faults}");
            stage.server.kill();
        }
    }
    let client = stage.start(SMALL_MERGES);
    // Each of a few sizes may have pieces left, too few for a merge.
    wait_until("the pieces to be merged", || stage.pieces() < 12);
    let (store, revision) = (store_of(&client, "in the end"), client.read(PLANT).revision());
    assert_eq!(Scrape::of(&client).value("plantd_archive_lost_changes_total"), 0.0);
    assert_eq!(stage.server.terminate().code(), Some(0));
    assert_eq!(stage.newest_by(&["verify"]), revision);
    let data = stage.folder.path().join("restored");
    let restore = ["restore", "--data", data.to_str().expect("UTF-8")];
    assert_eq!(stage.newest_by(&restore), revision);
    let restored = TestServer::start_at(Launch::new(), &data);
    assert_eq!(store_of(&restored.client(), "restored"), store);
    Report {
        test: "archive",
        promise: "A kill while a piece of the archive is written or merged loses no change of the archive",
        disturbances: format!("{} kills at {} steps", u64::from(rounds) * POINTS.len() as u64, POINTS.len()),
        losses: format!("0 of {revision} changes"),
        details: "each archive verified, the last one restored".to_owned(),
    }
    .print();
}

#[test]
fn a_panic_of_the_archive_thread_shows_in_log_metrics_and_readiness_and_stops_no_write() {
    let mut stage = Stage::new();
    for point in POINTS.into_iter().filter(|(_, thread)| *thread == ARCHIVE_THREAD) {
        let client = stage.start(&fault(point, &format!("1*off->panic({PANIC})")));
        stage.write_until_told(
            &client,
            "the thread of the archive panicked; start the server again",
        );
        let unready = client.get("/readyz").assert_error(503, 5003);
        assert!(unready.contains("archive"), "{unready}");
        assert!(Scrape::of(&client).value("plantd_archive_failures_total") >= 1.0);
        assert_eq!(client.put(PLANT, "{\"name\":\"Rosa after a panic\"}").status, 200);
        assert_eq!(stage.server.terminate().code(), Some(0));
        assert!(stage.server.stderr().contains(PANIC));

        let client = stage.start(SMALL_MERGES);
        wait_until_archived(&client);
        assert_eq!(client.get("/readyz").status, 200);
        let revision = client.read(PLANT).revision();
        stage.server.kill();
        assert_eq!(stage.newest_by(&["verify"]), revision, "{point:?}");
    }
}

#[test]
fn a_panic_in_a_merge_of_pieces_is_logged_and_the_archive_goes_on() {
    let mut stage = Stage::new();
    for point in POINTS.into_iter().filter(|(_, thread)| *thread == MERGE_THREAD) {
        let client = stage.start(&fault(point, &format!("1*panic({PANIC})->off")));
        stage.write_until_told(&client, "cannot be merged, so it gets more files than it needs");
        stage.write_until_told(&client, "are merged again");
        wait_until_archived(&client);
        assert_eq!(client.get("/readyz").status, 200);
        let revision = client.read(PLANT).revision();
        assert_eq!(stage.newest_by(&["verify"]), revision, "{point:?}: while the server merges");
        stage.server.kill();
    }
}
