//! System calls that fail or do not return: the first, the second and so on, once or permanently.
//!
//! strace injects the faults instead of the calls. It counts the calls of each thread: the commit thread writes the
//! write-ahead log, the compaction thread tables and the manifest.

use std::collections::BTreeSet;
use std::fs;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use plantd_tests::torture::{Report, chance, check_all, is_long, time, times};
use plantd_tests::{
    Followed, Followers, Format, IO, Launch, Ledgers, SystemCalls, TestServer, copy_folder,
    plant_body, wait_until,
};

use super::load::{Failed, launch, new_ledgers, write_until_it_fails};
use super::{assert_helps, check_repaired, check_repaired_for, start_and_end};
use crate::{CHANGES_IN_MEMORY, SMALL_LIMITS};

/// How many rounds of writes a fault with an unknown time gets to happen.
const MOST_ROUNDS: u32 = 8;

const AT_ONCE: usize = 4;

/// The most tables that a server writes during the faults.
const MOST_TABLES: u64 = 2_000;

/// Longer than the server waits for a disk. A process ends only when strace releases its delayed calls.
const HANGS: &str = "delay_enter=13s";

/// The files that a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Log,
    NewTables,
    NewManifest,
    Folders,
}

/// The segments of the write-ahead log, and the names by which strace finds them.
const SEGMENTS: [(&str, &str); 2] = [("journal.0", "faulty.0"), ("journal.1", "faulty.1")];

impl Files {
    /// Paths in the folder `plants`, where a database has ended in order. The next start does not use them: the
    /// write-ahead log is renamed to these names after the start.
    fn paths(self, plants: &Path) -> Vec<PathBuf> {
        match self {
            Self::Log => SEGMENTS.map(|(_, faulty)| plants.join(faulty)).into(),
            Self::NewTables => {
                let tables = plants.join("tables");
                let names = fs::read_dir(&tables).expect("a folder can be read").map(|entry| {
                    let name = entry.expect("a folder can be read").file_name();
                    name.to_str().and_then(|name| name.parse().ok()).expect("the number of a table")
                });
                let newest: u64 = names.max().unwrap_or_default();
                let new = newest + 1..newest + MOST_TABLES;
                let names = ["", ".new", ".new/db"];
                let paths = |number| names.map(|name| tables.join(format!("{number:012}{name}")));
                new.flat_map(paths).collect()
            }
            Self::NewManifest => vec![plants.join("manifest.new")],
            Self::Folders => vec![plants.to_owned(), plants.join("tables")],
        }
    }
}

/// Which calls fail, and how.
#[derive(Clone, Debug)]
struct Fault {
    call: &'static str,
    /// The fault, in strace's syntax.
    tamper: &'static str,
    /// The first call that fails, in each thread.
    first: u32,
    /// Whether all later calls fail too.
    is_for_ever: bool,
}

impl Fault {
    /// The options of strace for calls on these files alone.
    fn options(&self, files: impl IntoIterator<Item = PathBuf>) -> Vec<String> {
        let Self { call, tamper, first, is_for_ever } = self;
        let more = if *is_for_ever { "+" } else { "" };
        let mut options = vec!["--seccomp-bpf".to_owned()];
        options.extend(["-e".to_owned(), format!("trace={call}")]);
        options.extend(["-e".to_owned(), format!("inject={call}:{tamper}:when={first}{more}")]);
        for file in files {
            options.extend(["-P".to_owned(), file.to_str().expect("UTF-8").to_owned()]);
        }
        options
    }
}

/// The number of disturbed calls. A call that was delayed until the end has no result in the trace.
fn disturbed(trace: &Path, process_id: u32) -> usize {
    let calls = SystemCalls::read(trace, process_id);
    let is_disturbed = |result: &str| result.contains("INJECTED") || result.contains("DELAYED");
    calls.all(|call| is_disturbed(&call.result)).count() + calls.unfinished()
}

/// Whether a call of the server, which may still run, has failed.
fn has_happened(trace: &Path) -> bool {
    fs::read_to_string(trace).expect("strace writes text").contains("INJECTED")
}

/// A running server whose calls fail from now on, but did not during its start.
struct FaultyServer {
    server: TestServer,
    trace: PathBuf,
    files: Files,
    _folder: tempfile::TempDir,
}

impl FaultyServer {
    /// Starts a server on earlier writes, and lets its faults begin.
    fn start(fault: &Fault, files: Files, ledgers: &mut Ledgers, chance: &mut Rng) -> Self {
        let mut server = TestServer::start();
        ledgers.write_some(&mut server, chance, 1);
        assert_eq!(server.terminate().code(), Some(0));

        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let trace = folder.path().join("trace");
        let plants = plants_of(&server);
        let options = fault.options(files.paths(&plants));
        let launch = if files == Files::Log { launch() } else { launch().faults(SMALL_LIMITS) };
        server.restart_with(launch.under_strace(&trace, &options));
        if files == Files::Log {
            for (name, faulty) in SEGMENTS {
                fs::rename(plants.join(name), plants.join(faulty)).expect("a file can be renamed");
            }
        }
        Self { server, trace, files, _folder: folder }
    }

    /// Restarts the ended server without faults. Returns how many calls were disturbed.
    fn restart(mut self) -> (usize, TestServer) {
        let disturbed = disturbed(&self.trace, self.server.process().id());
        let plants = plants_of(&self.server);
        if self.files == Files::Log {
            for (name, faulty) in SEGMENTS {
                fs::rename(plants.join(faulty), plants.join(name)).expect("a file can be renamed");
            }
        }
        self.server.restart_with(Launch::new());
        (disturbed, self.server)
    }
}

fn plants_of(server: &TestServer) -> PathBuf {
    server.data().canonicalize().expect("the folder exists").join("plants")
}

#[derive(Debug, Default)]
struct Sums {
    cases: u32,
    failures: u32,
    disturbed: usize,
    writes: u64,
    doubts: usize,
    followed: Vec<Followed>,
    not_ready_after: Duration,
    ended_after: Duration,
}

/// Writes during a fault, and asserts that every acknowledged write is there afterwards.
#[track_caller]
fn check_serving(fault: &Fault, files: Files, must_fail: bool, sums: &Mutex<Sums>) {
    let (mut ledgers, mut chance) = (new_ledgers(), chance());
    let mut faulty = FaultyServer::start(fault, files, &mut ledgers, &mut chance);
    let followers = Followers::of(&faulty.server);
    let mut write = || write_until_it_fails(&mut faulty.server, &mut ledgers, &mut chance);
    let mut failed = write();
    assert!(failed.is_some() || !must_fail, "{fault:?} went unnoticed");
    for _ in 1..MOST_ROUNDS {
        if failed.is_some() || has_happened(&faulty.trace) {
            break;
        }
        failed = write();
    }
    if failed.is_none() {
        let code = faulty.server.terminate().code();
        assert!(matches!(code, Some(0 | IO)), "{fault:?}: {code:?}: {}", faulty.server.stderr());
    } else {
        assert_helps(&faulty.server.stderr(), faulty.server.data(), &["has room"]);
    }
    followers.set_servers([]);
    let (disturbed, mut server) = faulty.restart();
    assert!(disturbed > 0, "{fault:?} did not happen");
    let followed = check_repaired_for(followers, &ledgers, &mut server);

    let mut sums = sums.lock().expect("no check panicked");
    sums.cases += 1;
    sums.disturbed += disturbed;
    sums.writes += ledgers.acknowledged();
    sums.doubts += ledgers.doubts();
    sums.followed.push(followed);
    if let Some(Failed { not_ready_after, ended_after }) = failed {
        sums.failures += 1;
        sums.not_ready_after = sums.not_ready_after.max(not_ready_after);
        sums.ended_after = sums.ended_after.max(ended_after);
    }
}

/// Checks each fault on calls for these files, and reports. The flag says whether the fault must end the server.
fn check_faults(promise: &'static str, cases: impl IntoIterator<Item = (Fault, Files, bool)>) {
    let sums = Mutex::default();
    check_all(AT_ONCE, cases, |(fault, files, must_fail)| {
        check_serving(&fault, files, must_fail, &sums)
    });
    let sums: Sums = sums.into_inner().expect("no check panicked");
    let followed: Followed = sums.followed.iter().copied().sum();
    Report {
        test: "disks",
        promise,
        disturbances: format!("{} servers with a fault, {} calls disturbed", sums.cases, sums.disturbed),
        losses: format!("0 of {} acknowledged writes; {followed}", sums.writes),
        details: format!("{} of the servers ended with 74; {} other writes are there whole or not at all; `/readyz` told within \
             {}, and the end came within {}", sums.failures, sums.doubts, time(sums.not_ready_after), time(sums.ended_after)),
    }
    .print();
}

/// Faults of one kind of call: of each of these calls, once and permanently.
fn faults(call: &'static str, tamper: &'static str, calls: RangeInclusive<u32>) -> Vec<Fault> {
    let once = calls.clone().map(|first| Fault { call, tamper, first, is_for_ever: false });
    let ever_from = if is_long() { calls } else { 3..=3 };
    let ever = ever_from.map(|first| Fault { call, tamper, first, is_for_ever: true });
    once.chain(ever).collect()
}

#[test]
fn a_call_that_fails_once_or_permanently_loses_no_acknowledged_write() {
    let kinds = [
        ("pwrite64", Files::Log),
        ("fdatasync", Files::Log),
        ("openat", Files::NewTables),
        ("pwrite64", Files::NewTables),
        ("fsync", Files::NewTables),
        ("rename", Files::NewTables),
        ("openat", Files::NewManifest),
        ("write", Files::NewManifest),
        ("fsync", Files::NewManifest),
        ("rename", Files::NewManifest),
        ("fsync", Files::Folders),
    ];
    let mut cases = Vec::new();
    for (call, files) in kinds {
        for tamper in ["error=EIO", "error=ENOSPC"] {
            // The start syncs the manifest's folder once, which must not fail.
            let first = if files == Files::Folders { 2 } else { 1 };
            let mut faults = faults(call, tamper, first..=first + times(1, 11));
            // The short form tries one fault of each kind.
            if !is_long() {
                fastrand::shuffle(&mut faults);
                faults.truncate(1);
            }
            cases.extend(faults.into_iter().map(|fault| (fault, files, true)));
        }
    }
    check_faults("A call that fails ends the server and loses no acknowledged write", cases);
}

#[test]
fn a_disk_that_stops_answering_ends_the_server() {
    let cases = [
        ("pwrite64", Files::Log, true),
        ("fdatasync", Files::Log, true),
        ("pwrite64", Files::NewTables, false),
        ("fsync", Files::NewManifest, false),
    ];
    let fault = |call| Fault { call, tamper: HANGS, first: 2, is_for_ever: false };
    check_faults(
        "A disk that stops answering ends the server and loses no acknowledged write",
        cases.map(|(call, files, must_fail)| (fault(call), files, must_fail)),
    );
}

/// A full segment of the write-ahead log becomes a table, which meets the fault when nearly all writes are answered.
#[test]
fn a_fault_that_only_a_table_meets_is_reported_without_another_write() {
    // A segment holds about 5,000.
    const IDS: Range<i64> = 1_000_000..1_007_500;
    let text = "木".repeat(255);
    let rows: String = IDS.map(|id| format!("{}\n", plant_body(id, &text, Some(&text)))).collect();
    check_all(AT_ONCE, ["pwrite64", "fsync"], |call| {
        let fault = Fault { call, tamper: "error=EIO", first: 1, is_for_ever: false };
        let (mut ledgers, mut chance) = (Ledgers::of_clients(1, 1), chance());
        let mut faulty = FaultyServer::start(&fault, Files::NewTables, &mut ledgers, &mut chance);
        let client = faulty.server.client();
        let import = client.try_send(
            "POST",
            "/plants/import",
            &[("content-type", Format::Ndjson.media_type())],
            &rows,
        );
        let is_told = import.is_ok_and(|answer| [200, 503].contains(&answer.status));
        assert!(is_told, "the import is not answered");
        wait_until("/readyz to tell of the failure", || client.get("/readyz").status == 503);
        client.create(-1, "late", None).assert_error(503, 5002);
        faulty.server.process().assert_exit_code(IO);
        assert_helps(&faulty.server.stderr(), faulty.server.data(), &["has room"]);
        let (disturbed, mut server) = faulty.restart();
        assert!(disturbed > 0, "{fault:?} did not happen");
        // A plant of the segment that could not become a table.
        server.client().read(IDS.start).assert_new_plant(IDS.start, &text, Some(&text));
        assert_eq!(server.terminate().code(), Some(0));
        server.verify();
    });
}

#[test]
fn nothing_is_begun_in_a_store_that_has_failed() {
    let fault = Fault { call: "pwrite64", tamper: "error=EIO", first: 1, is_for_ever: false };
    let (mut ledgers, mut chance) = (Ledgers::of_clients(1, 1), chance());
    let mut faulty = FaultyServer::start(&fault, Files::NewTables, &mut ledgers, &mut chance);
    let client = faulty.server.client();
    for id in 0..CHANGES_IN_MEMORY {
        client.create(1_000_000 + id, "Abies", None).assert_plant("Abies", None);
    }
    // This write makes the memtable full. Its answer may already know that the table failed.
    let last = client.create(2_000_000, "Abies", None);
    assert!([200, 503].contains(&last.status), "{last:?}");
    wait_until("/readyz to tell of the failure", || client.get("/readyz").status == 503);
    client.create(-1, "late", None).assert_error(503, 5002);
    client.import(Format::Ndjson, "", plant_body(-2, "late", None)).assert_error(503, 5002);
    faulty.server.process().assert_exit_code(IO);
    let (_, mut server) = faulty.restart();
    for id in [-1, -2] {
        server.client().read(id).assert_error(404, 3002);
    }
    assert_eq!(server.terminate().code(), Some(0));
}

/// A start to disturb: a first start, without a folder or a token, or a start on the database of a killed server.
struct Known {
    launch: Launch,
    /// Has the folder on which the start begins; `None` for a first start.
    template: Option<tempfile::TempDir>,
    ledgers: Ledgers,
    /// The paths that the start uses, relative to its folder.
    files: BTreeSet<PathBuf>,
}

const CALLS_OF_A_START: &[&str] = &[
    "openat",
    "mkdir",
    "rename",
    "flock",
    "unlink",
    "read",
    "pread64",
    "write",
    "fsync",
    "fdatasync",
    "getdents64",
];

impl Known {
    fn first() -> Self {
        Self::learn(Launch::new().without_environment("PLANTD_TOKEN"), None, new_ledgers())
    }

    fn later(chance: &mut Rng) -> Self {
        let template = tempfile::tempdir().expect("a temporary folder can be made");
        let mut ledgers = new_ledgers();
        let mut server = TestServer::start_at(Launch::new(), &template.path().join("data"));
        // An orderly end writes a table; the kill leaves changes in the write-ahead log.
        ledgers.write_some(&mut server, chance, 5);
        assert_eq!(server.terminate().code(), Some(0));
        server.restart_with(Launch::new());
        ledgers.write_some(&mut server, chance, 5);
        server.kill();
        Self::learn(Launch::new(), Some(template), ledgers)
    }

    fn learn(launch: Launch, template: Option<tempfile::TempDir>, ledgers: Ledgers) -> Self {
        let mut known = Self { launch, template, ledgers, files: BTreeSet::new() };
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let trace = folder.path().join("trace");
        let data = folder.path().canonicalize().expect("the folder exists").join("data");
        known.lay(&data);
        let traced = format!("trace={}", CALLS_OF_A_START.join(","));
        let launch = known.launch.clone().under_strace(&trace, &["-s", "4096", "-e", &traced]);
        let mut server = TestServer::start_at(launch, &data);
        assert_eq!(server.terminate().code(), Some(0));
        drop(SystemCalls::read(&trace, server.process().id()));
        let text =
            String::from_utf8_lossy(&fs::read(&trace).expect("the trace is there")).into_owned();
        let data = data.to_str().expect("UTF-8");
        for (position, _) in text.match_indices(data) {
            let path = text[position + data.len()..].split(['>', '"']).next().unwrap_or_default();
            known.files.insert(path.trim_start_matches('/').into());
        }
        known
    }

    /// Makes the folder on which the start begins.
    fn lay(&self, data: &Path) {
        if let Some(template) = &self.template {
            copy_folder(&template.path().join("data"), data);
        }
    }

    /// Starts with a fault, which may end the start with a message that helps, and then without the fault. Returns
    /// whether the fault happened, and whether it ended the start.
    #[track_caller]
    fn check(&self, fault: &Fault) -> (bool, bool) {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let trace = folder.path().join("trace");
        let data = folder.path().canonicalize().expect("the folder exists").join("data");
        self.lay(&data);
        let options = fault.options(self.files.iter().map(|file| data.join(file)));
        let launch = self.launch.clone().under_strace(&trace, &options);
        let advice = ["has room", "and who owns it"];
        let (is_ready, process) = start_and_end(&launch, &data, &advice);
        let stderr = process.stderr();
        assert!(!stderr.contains("restore a backup"), "{fault:?}: {stderr}");
        let happened = disturbed(&trace, process.id()) > 0;

        let mut server = TestServer::start_at(Launch::new(), &data);
        check_repaired(&self.ledgers, &mut server);
        (happened, !is_ready)
    }
}

#[test]
fn a_start_that_meets_a_fault_ends_with_74_and_the_next_one_has_everything() {
    let mut chance = chance();
    let known = [Known::first(), Known::later(&mut chance)];
    let mut cases = Vec::new();
    for known in &known {
        for &call in CALLS_OF_A_START {
            let kinds = if is_long() { vec![false, true] } else { vec![chance.bool()] };
            cases.extend(
                kinds.into_iter().map(|is_for_ever| (known, call, is_for_ever, chance.fork())),
            );
        }
    }
    let sums = Mutex::new((0, 0, 0));
    check_all(AT_ONCE, cases, |(known, call, is_for_ever, mut chance)| {
        // The long form tries every call, the short one some, most of them of two kinds: sled panics when a sync fails, and
        // zeroes what it cannot read.
        let is_special = [("fsync", true), ("pread64", false)].contains(&(call, is_for_ever));
        let longest_step = times(if is_special { 8 } else { 30 }, 1);
        let mut first = 0;
        loop {
            first += chance.u32(1..=longest_step);
            let fault = Fault { call, tamper: "error=EIO", first, is_for_ever };
            let (happened, refused) = known.check(&fault);
            let mut sums = sums.lock().expect("no check panicked");
            sums.0 += 1;
            if !happened {
                break;
            }
            sums.1 += 1;
            sums.2 += u32::from(refused);
        }
    });
    let (starts, disturbed, refused) = sums.into_inner().expect("no check panicked");
    assert!(refused > 0, "no start was refused");
    Report {
        test: "disks",
        promise: "A start that meets a disk error says so, and the next one has everything",
        disturbances: format!("{starts} starts, {disturbed} of them met a fault"),
        losses: format!("0 of {starts} databases"),
        details: format!(
            "{refused} of the starts ended with 74, and {} went on and lacked nothing",
            disturbed - refused
        ),
    }
    .print();
}
