//! A server whose log nobody reads.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{self, JoinHandle};

use plantd_tests::{Launch, Scrape, TestServer, create_request, plant_body};
use tempfile::TempDir;

const CLIENTS: i64 = 16;

/// More lines than the queue and the pipe hold, of the length that [`long_request`] makes.
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
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("log");
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        let held =
            File::options().read(true).write(true).open(&path).expect("a file can be opened");
        Self { folder, _held: held }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log")
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

/// A create whose line in the log is twice as long as usual.
fn long_request(id: i64) -> String {
    let lines = format!("X-Request-Id: {}\r\nContent-Type:", "x".repeat(128));
    create_request(&plant_body(id, "Rosa", None)).replacen("Content-Type:", &lines, 1)
}

/// Creates this many plants over a few connections, and returns the statuses of the answers.
fn create(server: &TestServer, plants: i64) -> Vec<u16> {
    thread::scope(|scope| {
        let create = |client: i64| {
            let mut connection = server.connect();
            let ids = (client..plants).step_by(usize::try_from(CLIENTS).expect("small"));
            let create_one = |id| {
                connection.send(long_request(id));
                connection.receive().status
            };
            ids.map(create_one).collect::<Vec<_>>()
        };
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || create(client))).collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("the client does not panic"))
            .collect()
    })
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
    let mut server = TestServer::start_with(Launch::new().standard_error(&pipe.path()));
    assert!(create(&server, MANY).iter().all(|status| *status == 200));
    let told = Scrape::of(&server.client()).value("plantd_log_dropped_lines_total");

    let log = pipe.read();
    assert_eq!(server.terminate().code(), Some(0));
    let log = log.join().expect("the reader does not panic");
    let (dropped, logged_creates) = (dropped(&log), logged(&log, " POST /plants 200 "));
    assert!(dropped > 0 && logged_creates > 0, "{dropped} dropped, {logged_creates} logged");
    // The scrape is logged after its answer. Its short line fits into some full queues.
    let dropped_creates = dropped - (1 - logged(&log, " GET /metrics 200 "));
    assert_eq!(dropped_creates + logged_creates, MANY);
    assert_eq!(told, dropped_creates as f64, "the metric differs from the log");
    for line in ["draining", "closed"] {
        assert!(log.contains(line), "the end of the log lacks {line:?}");
    }
}

#[test]
fn a_server_whose_log_is_never_read_ends_with_0() {
    let pipe = UnreadPipe::new();
    let mut server = TestServer::start_with(Launch::new().standard_error(&pipe.path()));
    assert!(create(&server, SOME).iter().all(|status| *status == 200));
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn an_error_is_logged_even_while_other_lines_are_dropped() {
    let pipe = UnreadPipe::new();
    let faults = format!("in-handler={}*off->1*panic(the lost error)->off", MANY - 1);
    let launch = Launch::new().faults(&faults).standard_error(&pipe.path());
    let mut server = TestServer::start_with(launch);
    let statuses = create(&server, MANY);
    assert_eq!(statuses.iter().filter(|status| **status == 500).count(), 1);

    let log = pipe.read();
    assert_eq!(server.terminate().code(), Some(0));
    let log = log.join().expect("the reader does not panic");
    assert!(dropped(&log) > 0, "no line was dropped");
    assert_eq!(logged(&log, "the lost error"), 1);
}
