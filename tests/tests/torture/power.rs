//! Power cuts: the disk keeps synced data and a random part of the rest.
//!
//! strace shows a server's writes and syncs, its answers, the events that followers got, and the revisions reported
//! as archived. From the trace, `Disk` computes the files that a cut at any moment leaves, and a server starts on
//! them.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use plantd_tests::disk::{Disk, TRACED};
use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{
    Client, Event, FollowedEvent, Followers, Launch, Ledgers, Scrape, SystemCall, SystemCalls,
    TestServer, WriteOutcome, all_events, change_in, copy_folder, newest_cursor, revision_of,
    store_of, wait_until,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::SMALL_LIMITS;

const CLIENTS: i64 = 8;

/// The most rows of an import: strace shows each several times.
const MOST_ROWS: usize = 16;

/// The bytes of a write that strace shows: all.
const SHOWN_BYTES: &str = "9000000";

const STRACE: [&str; 5] = ["-x", "-s", SHOWN_BYTES, "-e", TRACED];

struct Run {
    /// The disk before the run.
    disk: Disk,
    calls: SystemCalls,
    told: Told,
    /// A backup of the store before the run.
    backup: PathBuf,
    _folder: TempDir,
}

/// What the server has told, as the trace shows it.
#[derive(Default)]
struct Told {
    /// The line of the trace on which the answer to each successful request begins, by its request id.
    answered: HashMap<String, usize>,
    /// The events that streams have sent, each with the line of the first call that completed it.
    shown: BTreeMap<u64, ShownEvent>,
    /// Each revision that the server reported as archived, and the line on which the report began.
    archived: Vec<(usize, u64)>,
}

/// The name of the archive, beside the data folder.
const ARCHIVE: &str = "archive";

/// How often a run asks for the archived revision.
const SCRAPES: usize = 5;

struct ShownEvent {
    cursor: String,
    event: FollowedEvent,
    line: usize,
}

impl Run {
    /// Runs a server on a copy of `image`, or on a new folder, until its clients have written enough.
    fn record(image: Option<&Path>, ledgers: &mut Ledgers, chance: &mut fastrand::Rng) -> Self {
        let writes = usize::try_from(times(100, 400)).expect("small");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let trace = folder.path().join("trace");
        let launch = Launch::new()
            .faults(SMALL_LIMITS)
            .arguments(["--keep-events", "500", "--cache-mb", "2"])
            .under_strace(&trace, &STRACE);
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        if let Some(image) = image {
            copy_folder(image, place.path());
        }
        let disk = Disk::holding(place.path());
        let archive = place.path().join(ARCHIVE);
        let launch = launch.arguments(["--archive".as_ref(), archive.as_os_str()]);
        let mut server = TestServer::start_at(launch, &place.path().join("data"));
        let url = format!("http://{}", server.address());
        let backup = folder.path().join("backup");
        let back_up = Launch::new().arguments(["backup", "--url", &url]).arguments([&backup]);
        back_up.spawn().assert_exit_code(0);
        let mut followers = Followers::of(&server);
        let before = ledgers.acknowledged();
        for _ in 0..SCRAPES {
            ledgers.write_some(&mut server, chance, writes / SCRAPES);
            Scrape::of(&server.client());
        }
        let client = server.client();
        let store = store_of(&client, "under strace");
        followers.assert_have(&client, &store, "under strace");
        let newest = followers.events().into_iter().flatten().map(|event| event.revision).max();
        followers.end();
        let acknowledged = ledgers.acknowledged() - before;
        if chance.bool() {
            assert_eq!(server.terminate().code(), Some(0));
        } else {
            server.kill();
        }
        let calls = SystemCalls::read(&trace, server.process().id());
        let told = Told::in_trace(&calls);
        // If the format of answers changed, the trace would show none, and the test would assert nothing.
        let seen = told.answered.keys().filter(|request_id| Ledgers::is_request_id(request_id));
        assert_eq!(u64::try_from(seen.count()).ok(), Some(acknowledged), "answers in the trace");
        assert_eq!(told.shown.keys().max().copied(), newest, "the newest event in the trace");
        assert!(told.archived.len() >= SCRAPES, "too few reports: {:?}", told.archived);
        Self { disk, calls, told, backup, _folder: folder }
    }

    /// Asserts that the archive left by a power cut on this line is intact, and has everything that was reported as
    /// archived. Returns the reported revision.
    #[track_caller]
    fn check_archive(&self, archive: &Path, line: usize) -> u64 {
        let reports = self.told.archived.iter().filter(|(reported, _)| *reported < line);
        let reported = reports.map(|(_, revision)| *revision).max().unwrap_or_default();
        if !archive.exists() {
            assert_eq!(reported, 0, "the archive is gone");
            return 0;
        }
        let newest = self.newest_in(archive);
        assert!(newest >= reported, "the archive goes up to {newest}, and {reported} was reported");
        reported
    }

    /// The revision up to which an archive continues the backup without a gap.
    #[track_caller]
    fn newest_in(&self, archive: &Path) -> u64 {
        let arguments = [
            OsStr::new("verify"),
            self.backup.as_os_str(),
            "--archive".as_ref(),
            archive.as_os_str(),
        ];
        let mut verify = Launch::new().arguments(arguments).spawn();
        let code = verify.wait_for_exit().code();
        if verify.stderr().contains("has no piece of the log") {
            return 0;
        }
        assert_eq!(code, Some(0), "{}", verify.stderr());
        revision_of(change_in(&verify.stdout()))
    }

    /// Asserts that a server started after a power cut on this line has every event that was shown before, in its
    /// place, and takes the cursor of the last of them. Returns their number.
    #[track_caller]
    fn check_events(&self, client: &Client, line: usize) -> usize {
        let shown: Vec<&ShownEvent> =
            self.told.shown.values().filter(|it| it.line < line).collect();
        let (Some(first), Some(last)) = (shown.first(), shown.last()) else { return 0 };
        let events = all_events(client, &format!("after={}&limit=1000", first.cursor));
        let events = events.iter().map(FollowedEvent::of);
        let of_shown = events.filter(|event| self.told.shown.contains_key(&event.revision));
        let later = shown.iter().skip(1).map(|shown| shown.event);
        assert!(later.eq(of_shown.take(shown.len() - 1)), "events that were shown are gone");
        let answer = client.get(&format!("/events?after={}", last.cursor));
        assert_eq!(answer.status, 200, "the cursor of a follower: {answer:?}");
        shown.len()
    }

    /// Lines of the trace at which to cut the power, ascending. One quarter each: where an answer begins, where a
    /// write to the write-ahead log begins, where a file is renamed or removed, and anywhere.
    fn moments(&self, wanted: u32, chance: &mut fastrand::Rng) -> Vec<usize> {
        let answers: Vec<usize> = self.told.answered.values().copied().collect();
        let is_log = |file: &str| file.contains("plants/journal.");
        let is_write = |call: &SystemCall| call.is_write() && call.file().is_some_and(is_log);
        let writes: Vec<usize> = self.calls.all(is_write).map(|call| call.begun).collect();
        let changes_name = |call: &SystemCall| matches!(call.name.as_str(), "rename" | "unlink");
        let names: Vec<usize> = self.calls.all(changes_name).map(|call| call.begun).collect();
        let moment = |cut| match cut % 4 {
            0 => chance.choice(&answers).expect("there are answers") + 1,
            1 => chance.choice(&writes).expect("there are writes") + 1,
            2 => chance.choice(&names).expect("there are renames") + 1,
            _ => chance.usize(..=self.calls.lines()),
        };
        let mut moments: Vec<usize> = (0..wanted).map(moment).collect();
        moments.sort_unstable();
        moments
    }
}

impl Told {
    /// Reads the trace once. Only what goes to a socket was told.
    fn in_trace(calls: &SystemCalls) -> Self {
        let mut told = Self::default();
        // The start of an event in each stream, if a call has ended within the event.
        let mut streams = HashMap::<&str, Vec<u8>>::new();
        for call in calls.all(SystemCall::is_write) {
            let Some(socket) = call.file().filter(|file| !file.starts_with('/')) else { continue };
            let sent = call.written();
            let text = String::from_utf8_lossy(&sent);
            told.answered.extend(request_of_success(&text).map(|id| (id, call.begun)));
            let archived = text.split_once("\nplantd_archived_revision ");
            let archived = archived.and_then(|(_, rest)| rest.lines().next()?.parse().ok());
            told.archived.extend(archived.map(|revision| (call.begun, revision)));
            if text.contains("content-type: text/event-stream") {
                streams.insert(socket, Vec::new());
            }
            let Some(stream) = streams.get_mut(socket) else { continue };
            stream.extend(&sent);
            // An event that was cut off does not count.
            let end = stream.windows(2).rposition(|end| end == b"\n\n").map_or(0, |end| end + 2);
            let whole: Vec<u8> = stream.drain(..end).collect();
            for event in events_in(&String::from_utf8_lossy(&whole), call.begun) {
                told.shown.entry(event.event.revision).or_insert(event);
            }
        }
        told
    }
}

/// The id of the request that this answers, if the answer is a success.
fn request_of_success(answer: &str) -> Option<String> {
    let mut head = answer.lines().take_while(|line| !line.is_empty());
    head.next().filter(|status| status.starts_with("HTTP/1.1 20"))?;
    Some(head.find_map(|line| line.strip_prefix("x-request-id: "))?.to_owned())
}

/// The events in a part of a stream, which was sent by the call on this line.
fn events_in(text: &str, line: usize) -> impl Iterator<Item = ShownEvent> {
    text.split("id: ").skip(1).filter_map(move |event| {
        let (cursor, rest) = event.split_once("\ndata: ")?;
        let (data, _) = rest.split_once("\n\n")?;
        let data: Value = serde_json::from_str(data).ok()?;
        let event = FollowedEvent::of(&Event::from_json(&data));
        Some(ShownEvent { cursor: cursor.to_owned(), event, line })
    })
}

/// Cuts the power; half of the time, tries until something is lost. Returns how many changes are lost.
fn cut_power(disk: &Disk, left: &Path, chance: &mut fastrand::Rng) -> usize {
    let mut tries = if chance.bool() { 10 } else { 1 };
    loop {
        let lost = disk.cut(left, chance);
        tries -= 1;
        if lost > 0 || tries == 0 {
            return lost;
        }
        fs::remove_dir_all(left).expect("a folder can be removed");
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut() {
    let (mut chance, runs, cuts_of_a_run) = (chance(), times(2, 25), times(4, 20));
    let folder = tempfile::tempdir().unwrap();
    let mut ledgers = Ledgers::of_clients(CLIENTS, MOST_ROWS);
    let mut image = None;
    let (mut system_calls, mut acknowledged, mut changes_lost, mut shown) = (0, 0, 0, 0);
    let mut archived = 0;
    for run in 0..runs {
        let mut recorded = Run::record(image.as_deref(), &mut ledgers, &mut chance);
        system_calls += recorded.calls.lines();
        let lines = recorded.moments(cuts_of_a_run, &mut chance);
        let mut begin = 0;
        for (cut, line) in (0..).zip(lines) {
            recorded.disk.run(&recorded.calls, begin..line);
            begin = line;
            let left = folder.path().join(format!("left-{run}-{cut}"));
            changes_lost += cut_power(&recorded.disk, &left, &mut chance);
            // A cut may come before the folder has its name.
            let data = left.join("data");
            let data = data.exists().then_some(data);
            archived += recorded.check_archive(&left.join(ARCHIVE), line);
            let place = tempfile::tempdir().unwrap();
            copy_folder(&left, place.path());
            let archive = place.path().join(ARCHIVE);
            let launch = Launch::new().arguments(["--archive".as_ref(), archive.as_os_str()]);
            let mut server = TestServer::start_at(launch, &place.path().join("data"));
            let client = server.client();
            let store = store_of(&client, "after a power cut");
            shown += recorded.check_events(&client, line);
            acknowledged += ledgers.compare_then(&store, |request_id| {
                recorded.told.answered.get(request_id).is_some_and(|answered| *answered < line)
            });
            let newest = revision_of(&newest_cursor(&client));
            assert_eq!(server.terminate().code(), Some(0));
            server.verify();
            if data.is_some() {
                assert!(recorded.newest_in(&archive) >= newest, "the archive was not continued");
            }
            if cut + 1 == cuts_of_a_run {
                ledgers.settle(&store);
                image = data.map(|_| left);
            } else {
                fs::remove_dir_all(&left).unwrap();
            }
        }
    }
    let cuts = runs * cuts_of_a_run;
    assert!(acknowledged > usize::try_from(cuts).unwrap(), "next to nothing was looked for");
    assert!(shown > usize::try_from(cuts).unwrap(), "next to nothing was shown to followers");
    assert!(archived > 0, "nothing was archived");
    assert!(changes_lost > 0, "no cut came while anything was not synced");
    Report {
        test: "power",
        promise: "A power cut loses no acknowledged write",
        disturbances: format!("{cuts} simulated power cuts"),
        losses: format!(
            "0 of {acknowledged} acknowledged writes; 0 of {shown} events that were shown, and no cursor; 0 of {archived} \
             changes that were reported as archived"
        ),
        details: format!("the cuts destroyed {changes_lost} unsynced changes, in whole or in part; {system_calls} system calls traced"),
    }
    .print();
}

/// A server killed between the rename of a manifest and the sync of its folder leaves a manifest that the next start
/// sees, and that a power cut may still undo.
#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut_in_the_start_after_a_kill() {
    /// The compaction thread writes a manifest for each of four tables, and a fifth for their merge.
    const STOP: &str = "after-file-rename@plant-compact=4*off->return";
    let mut chance = chance();
    let folder = tempfile::tempdir().unwrap();
    let (trace, second_trace) = (folder.path().join("trace"), folder.path().join("second-trace"));
    let mut ledgers = Ledgers::of_clients(CLIENTS, MOST_ROWS);
    let launch = Launch::new().faults(&format!("{SMALL_LIMITS};{STOP}"));
    let mut disk = None;
    let launch = launch.under_strace(&trace, &STRACE);
    let mut server = TestServer::start_prepared(launch, "data", |data| {
        disk = Some(Disk::holding(data.parent().expect("a folder is in a folder")));
    });
    ledgers.write(
        &mut server,
        &mut chance,
        || WriteOutcome::is_in_doubt,
        |server| {
            let stopped = || server.stderr().contains("stopped at the fault point");
            wait_until("the manifest of a merge", stopped);
            server.kill();
        },
    );
    let mut disk = disk.expect("the load has begun");
    let calls = SystemCalls::read(&trace, server.process().id());
    disk.run(&calls, 0..calls.lines());
    disk.begin_trace();

    server.restart_with(Launch::new().under_strace(&second_trace, &STRACE));
    server.kill();
    let calls = SystemCalls::read(&second_trace, server.process().id());
    let mut begin = 0;
    for (cut, sync) in calls.all(SystemCall::is_sync).enumerate() {
        disk.run(&calls, begin..sync.returned + 1);
        begin = sync.returned + 1;
        let left = folder.path().join(format!("left-{cut}"));
        cut_power(&disk, &left, &mut chance);
        let mut server = TestServer::start_at(Launch::new(), &left.join("data"));
        ledgers.compare(&store_of(&server.client(), "after a power cut in a start"));
        assert_eq!(server.terminate().code(), Some(0));
        server.verify();
    }
    assert!(begin > 0, "the start synced nothing");
}
