//! A server whose log nobody reads.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use plantd_tests::{Format, Launch, NewPlant, Scrape, TestServer, make_pipe, temporary_folder};
use tempfile::TempDir;

/// More lines than the queue and the pipe hold, of the length that [`import`] makes.
const MANY: i64 = 50_000;

/// More lines than the pipe holds.
const SOME: i64 = 2_000;

/// A pipe that nobody reads yet.
struct UnreadPipe {
    folder: TempDir,
    /// Both ends, so that the program can open the pipe before there is a reader.
    _held: File,
}

impl UnreadPipe {
    fn new() -> Self {
        let folder = temporary_folder();
        let path = folder.path().join("log");
        make_pipe(&path);
        let held =
            File::options().read(true).write(true).open(&path).expect("a file can be opened");
        Self { folder, _held: held }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// A server that writes a line for each plant of an import to this pipe.
    fn launch(&self) -> Launch {
        let launch = Launch::new().environment("RUST_LOG", "info,plantd::audit::import=debug");
        launch.standard_error(&self.path())
    }

    /// Reads everything until the program has ended.
    fn read(self) -> JoinHandle<String> {
        let mut reader = File::open(self.path()).expect("a file can be opened");
        thread::spawn(move || {
            drop(self);
            let mut log = String::new();
            reader.read_to_string(&mut log).expect("the log is text");
            log
        })
    }
}

/// Imports this many plants. Each has a line in the log, which is twice as long as usual.
#[track_caller]
fn import(server: &TestServer, count: i64) {
    let plants: Vec<_> = (1..=count).map(|id| NewPlant::new(id, "Rosa", None)).collect();
    let id = "x".repeat(128);
    let headers = [("content-type", Format::Ndjson.media_type()), ("x-request-id", &id)];
    let body = Format::Ndjson.body(&plants);
    let answer = server.client().send("POST", "/plants/import", &headers, body);
    assert_eq!(answer.json()["created"], count, "{answer:?}");
}

fn dropped(log: &str) -> i64 {
    let count = |line: &str| {
        let (before, _) = line.split_once(" lines were dropped")?;
        before.rsplit(' ').next()?.parse::<i64>().ok()
    };
    log.lines().filter_map(count).sum()
}

fn logged(log: &str, words: &str) -> i64 {
    i64::try_from(log.matches(words).count()).expect("not so many")
}

#[test]
fn a_log_that_nobody_reads_stalls_nothing_and_its_lost_lines_are_counted_once_it_is_read() {
    let pipe = UnreadPipe::new();
    let mut server = TestServer::start_with(pipe.launch());
    import(&server, MANY);
    let told = Scrape::of(&server.client()).value("plantd_log_dropped_lines_total");

    let log = pipe.read();
    assert_eq!(server.terminate().code(), Some(0));
    let log = log.join().expect("the reader does not panic");
    let (dropped, logged_plants) = (dropped(&log), logged(&log, " plant="));
    assert!(dropped > 0 && logged_plants > 0, "{dropped} dropped, {logged_plants} logged");
    // The requests are logged too. Their lines are shorter, and may fit into a queue that is full.
    let lost_requests = 1 - logged(&log, " POST /plants/import 200 ");
    let lost_plants = dropped - lost_requests - (1 - logged(&log, " GET /metrics 200 "));
    assert_eq!(lost_plants + logged_plants, MANY);
    assert_eq!(told, (lost_plants + lost_requests) as f64, "the metric differs from the log");
    for line in ["draining", "closed"] {
        assert!(log.contains(line), "the end of the log lacks {line:?}");
    }
}

#[test]
fn a_server_whose_log_is_never_read_ends_with_0() {
    let pipe = UnreadPipe::new();
    let mut server = TestServer::start_with(pipe.launch());
    import(&server, SOME);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn an_error_is_logged_even_while_other_lines_are_dropped() {
    let pipe = UnreadPipe::new();
    let launch = pipe.launch().faults("in-handler=panic(the lost error)");
    let mut server = TestServer::start_with(launch);
    import(&server, MANY);
    assert_eq!(server.client().create(0, "Rosa", None).status, 500);
    let dropped_before = Scrape::of(&server.client()).value("plantd_log_dropped_lines_total");
    assert!(dropped_before > 0.0, "no line was dropped before the error");

    let log = pipe.read();
    assert_eq!(server.terminate().code(), Some(0));
    let log = log.join().expect("the reader does not panic");
    assert!(dropped(&log) > 0, "no line was dropped");
    assert_eq!(logged(&log, "the lost error"), 1);
}
