//! Disks that become full, or are full at the start, and later have room again.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{
    Answer, Client, Counts, Followed, Followers, Format, IO, Launch, Ledgers, SmallDisk,
    TestServer, WriteOutcome, plant_body, plants_in, replacement_body, store_of, wait_until,
};

use super::load::{self, new_ledgers};
use super::{assert_helps, check_repaired, check_repaired_for, start_and_end};
use crate::SMALL_LIMITS;

const ROOM: &str = "size=336m";
const ADVICE: &[&str] = &["has room"];

/// Room for the server's log and tokens, but not for changes that wait for compaction.
const LITTLE_MIB: u32 = 4;

/// Starts a server on a disk that may be full. Returns whether it serves.
#[track_caller]
fn try_start(launch: &Launch, disk: &SmallDisk) -> bool {
    start_and_end(launch, &disk.data(), ADVICE).0
}

/// Frees disk space, and starts a server without faults.
#[track_caller]
fn start_with_room(disk: &SmallDisk) -> TestServer {
    disk.remount(ROOM);
    TestServer::start_at(Launch::new().within(disk), &disk.data())
}

/// Waits until `/readyz` says that the disk is full.
#[track_caller]
fn wait_until_full(client: &Client) {
    wait_until("/readyz to say that the disk is full", || is_full(&client.get("/readyz")));
}

fn is_full(answer: &Answer) -> bool {
    answer.status == 503
        && String::from_utf8_lossy(&answer.body).contains("disk of the store is full")
}

/// Asserts that every kind of write is refused while the disk is full.
#[track_caller]
fn assert_refuses_writes(client: &Client) {
    const NOBODY: i64 = 1_000_000;
    let body = plant_body(NOBODY, "Abies", None);
    for answer in [
        client.create_from(&body),
        client.put(NOBODY, &replacement_body("Abies", None)),
        client.patch(NOBODY, r#"{"name":"Abies"}"#),
        client.delete(NOBODY),
        client.import(Format::Ndjson, "", body),
    ] {
        assert!(is_full(&answer), "{answer:?}");
        answer.assert_error(503, 5002);
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    client.read(NOBODY).assert_error(404, 3002);
}

/// Stops a server whose disk is full, and asserts that the log reports no loss. Returns whether changes wait for
/// room.
#[track_caller]
fn terminate_full(server: &mut TestServer) -> bool {
    match server.terminate().code() {
        Some(0) => false,
        code => {
            assert_eq!(code, Some(IO), "{}", server.stderr());
            assert_helps(
                &server.stderr(),
                server.data(),
                &["everything acknowledged is in the write-ahead log"],
            );
            true
        }
    }
}

#[test]
fn while_the_disk_is_full_reads_go_on_and_writes_are_refused_until_there_is_room() {
    let mut chance = chance();
    let rounds = times(3, 120);
    let mut followed = Vec::new();
    let (mut writes, mut doubts, mut starts, mut refused) = (0, 0, 0, 0);
    for round in 0..rounds {
        // 16 MiB for the write-ahead log, and 128 MiB as the reserve.
        let kib = chance.u32(145 * 1024..146 * 1024);
        let disk = SmallDisk::new(&format!("size={kib}k"));
        let launch = load::launch().faults(SMALL_LIMITS).within(&disk);
        let mut server = TestServer::start_at(launch.clone(), &disk.data());
        let client = server.client();
        let (mut ledgers, mut followers) = (new_ledgers(), Followers::of(&server));
        let told = ledgers.write(&mut server, &mut chance, || WriteOutcome::is_in_doubt, |_| {});
        assert!(told.iter().all(|told| *told == WriteOutcome::DiskFull), "{told:?}");
        wait_until_full(&client);
        if round % 2 == 0 {
            disk.fill_but("of-someone-else", LITTLE_MIB);
        }
        assert_refuses_writes(&client);
        let store = store_of(&client, "while its disk is full");
        followers.assert_have(&client, &store, "while its disk is full");
        (writes, doubts) = (writes + ledgers.acknowledged(), doubts + ledgers.doubts());
        ledgers.compare_and_settle(&store);
        match round % 3 {
            0 => {
                disk.remount(ROOM);
                wait_until("/readyz to be 200", || client.get("/readyz").status == 200);
                ledgers.write_some(&mut server, &mut chance, 10);
                followed.push(check_repaired_for(followers, &ledgers, &mut server));
                continue;
            }
            1 => server.kill(),
            _ => drop(terminate_full(&mut server)),
        }
        followers.set_servers([]);
        starts += 1;
        refused += u32::from(!try_start(&launch, &disk));
        followed.push(check_repaired_for(followers, &ledgers, &mut start_with_room(&disk)));
    }
    let followed: Followed = followed.into_iter().sum();
    Report {
        test: "disks",
        promise: "While the disk is full, reads go on, writes are refused, and nothing is lost",
        disturbances: format!("{rounds} disks filled by the server"),
        losses: format!("0 of {writes} acknowledged writes; {followed}"),
        details: format!(
            "{doubts} imports cut off; {refused} of {starts} starts without room refused"
        ),
    }
    .print();
}

/// Foreign files take the inodes, while there is plenty of space.
#[test]
fn a_disk_without_inodes_says_so_before_a_flush_needs_them_and_loses_nothing() {
    let disk = SmallDisk::new("size=2g,nr_inodes=400");
    let launch = load::launch().faults(SMALL_LIMITS).within(&disk);
    let mut server = TestServer::start_at(launch, &disk.data());
    let (client, mut chance) = (server.client(), chance());
    let mut ledgers = new_ledgers();
    ledgers.write_some(&mut server, &mut chance, 10);
    disk.leave_inodes(200);
    wait_until("a warning", || server.stderr().contains("inodes left; with less than"));
    for inodes in [40, 0] {
        disk.leave_inodes(inodes);
        wait_until_full(&client);
        for answer in [client.get("/readyz"), client.create(-1, "Abies", None)] {
            let message = answer.assert_error(503, 5002);
            assert!(message.contains("no inodes left"), "{message}");
        }
        assert_refuses_writes(&client);
    }
    assert!(server.stderr().contains("inodes left: writes are refused"), "{}", server.stderr());
    ledgers.compare(&store_of(&client, "while its disk has no inodes"));
    disk.remount("nr_inodes=1000");
    wait_until("/readyz to be 200", || client.get("/readyz").status == 200);
    ledgers.write_some(&mut server, &mut chance, 10);
    check_repaired(&ledgers, &mut server);
}

/// A whole segment of the write-ahead log waits to become a table, and the disk has no room for it.
#[test]
fn an_import_that_fills_the_disk_is_cut_off_and_its_first_rows_wait_for_room() {
    // A segment holds about 5,000.
    const IDS: Range<i64> = 0..12_000;
    let text = "木".repeat(255);
    let rows: String = IDS.map(|id| format!("{}\n", plant_body(id, &text, Some(&text)))).collect();
    let import = |client: &Client| client.import(Format::Ndjson, "on_conflict=skip", &rows);
    for ends_meanwhile in [false, true] {
        let disk = SmallDisk::new("size=150m");
        let mut server = TestServer::start_at(load::launch().within(&disk), &disk.data());
        let client = server.client();
        let cut_off = import(&client);
        assert!(is_full(&cut_off), "{cut_off:?}");
        let message = cut_off.assert_error(503, 5002);
        assert!(message.contains("plants were created"), "{message}");
        wait_until_full(&client);
        disk.fill_but("of-someone-else", LITTLE_MIB);
        assert_refuses_writes(&client);
        let plants = plants_in(&client.export(Format::Ndjson));
        assert!(plants.keys().copied().eq((0..).take(plants.len())), "the first rows are there");
        if ends_meanwhile {
            assert!(terminate_full(&mut server), "{}", server.stderr());
            server = start_with_room(&disk);
        } else {
            disk.remount(ROOM);
            wait_until("/readyz to be 200", || client.get("/readyz").status == 200);
            for said in ["MiB left; with less than", "is full, it has", "has room again"] {
                wait_until(said, || server.stderr().matches(said).count() == 1);
            }
        }
        let client = server.client();
        let kept = plants_in(&client.export(Format::Ndjson));
        assert!(kept == plants, "{} plants instead of {}", kept.len(), plants.len());
        let (skipped, all) = (plants.len() as u64, IDS.end as u64);
        let created = all - skipped;
        import(&client).assert_report(Counts { created, skipped, ..Counts::default() });
        assert_eq!(server.terminate().code(), Some(0));
    }
}

/// Another program fills the disk at once. A store that writes a table at this moment may fail.
#[test]
fn a_disk_that_another_program_fills_at_once_loses_nothing_that_was_acknowledged() {
    let mut chance = chance();
    let rounds = times(2, 120);
    let mut followed = Vec::new();
    let (mut writes, mut doubts, mut failed) = (0, 0, 0);
    for _ in 0..rounds {
        let disk = SmallDisk::new("size=184m");
        let launch = load::launch().faults(SMALL_LIMITS).within(&disk);
        let mut server = TestServer::start_at(launch.clone(), &disk.data());
        let (mut ledgers, followers) = (new_ledgers(), Followers::of(&server));
        let before = chance.usize(0..200);
        let acknowledged = AtomicUsize::new(0);
        let new_end = || {
            |told: WriteOutcome| {
                acknowledged.fetch_add(1, Ordering::Relaxed);
                told.is_in_doubt()
            }
        };
        let fill = |_: &mut TestServer| {
            wait_until("some writes", || acknowledged.load(Ordering::Relaxed) >= before);
            disk.fill("of-someone-else");
        };
        ledgers.write(&mut server, &mut chance, new_end, fill);
        (writes, doubts) = (writes + ledgers.acknowledged(), doubts + ledgers.doubts());
        let client = server.client();
        let mut is_running = true;
        wait_until("/readyz to tell, or the end", || {
            let ready = client.try_send("GET", "/readyz", &[], "");
            is_running = server.process().is_running();
            ready.is_ok_and(|answer| answer.status == 503) || !is_running
        });
        if is_running {
            server.process().send_terminate();
        }
        let code = server.process().wait_for_exit().code();
        followers.set_servers([]);
        assert!(matches!(code, Some(0 | IO)), "{code:?}: {}", server.stderr());
        if code == Some(IO) {
            assert_helps(&server.stderr(), server.data(), ADVICE);
        }
        failed += u32::from(server.stderr().contains("No space left on device"));
        followed.push(check_repaired_for(followers, &ledgers, &mut start_with_room(&disk)));
    }
    let followed: Followed = followed.into_iter().sum();
    Report {
        test: "disks",
        promise: "A disk that another program fills at once loses no acknowledged write",
        disturbances: format!("{rounds} disks filled by another program"),
        losses: format!("0 of {writes} acknowledged writes; {followed}"),
        details: format!(
            "{failed} stores failed; {doubts} other writes are there whole or not at all"
        ),
    }
    .print();
}

#[test]
fn a_first_start_on_a_full_disk_says_so_and_with_room_the_next_one_works() {
    let mut chance = chance();
    let (mut starts, mut refused) = (0, 0);
    let mut start = |options: &str, room: &str| {
        let disk = SmallDisk::new(options);
        let launch = Launch::new().without_environment("PLANTD_TOKEN").within(&disk);
        let is_ready = try_start(&launch, &disk);
        starts += 1;
        refused += u32::from(!is_ready);
        disk.remount(room);
        check_repaired(&Ledgers::of_clients(0, 0), &mut start_with_room(&disk));
        is_ready
    };
    // Larger and larger disks, until there is room.
    let (mut kib, step) = (4, times(3_000, 40));
    while !start(&format!("size={kib}k"), ROOM) {
        kib += chance.u32(step / 2..=step);
    }
    assert!(kib > 4, "no disk was too small");
    // The same for the number of files.
    let step = usize::try_from(times(4, 1)).expect("small");
    let enough = (2..=18).step_by(step);
    let enough = { enough }.find(|files| start(&format!("nr_inodes={files}"), "nr_inodes=1000"));
    assert!(enough > Some(2), "with {enough:?} files a server starts");
    Report {
        test: "disks",
        promise: "A first start on a full disk says so, and with room the next one works",
        disturbances: format!("{starts} first starts on small disks"),
        losses: "nothing to lose yet".to_owned(),
        details: format!("{refused} of the starts refused"),
    }
    .print();
}

#[test]
fn a_later_start_on_a_full_disk_harms_nothing() {
    let rounds = times(2, 167);
    let mut followed = Vec::new();
    let mut chance = chance();
    let (mut starts, mut refused, mut writes) = (0, 0, 0);
    for round in 0..rounds {
        let disk = SmallDisk::new("size=160m");
        let launch = load::launch().within(&disk);
        let mut server = TestServer::start_at(launch.clone(), &disk.data());
        let (mut ledgers, followers) = (new_ledgers(), Followers::of(&server));
        let each = chance.usize(10..50);
        ledgers.write_some(&mut server, &mut chance, each);
        writes += ledgers.acknowledged();
        if round % 2 == 0 {
            server.kill();
        } else {
            assert_eq!(server.terminate().code(), Some(0));
        }
        followers.set_servers([]);
        disk.fill("of-someone-else");
        for _ in 0..3 {
            starts += 1;
            refused += u32::from(!try_start(&launch, &disk));
        }
        followed.push(check_repaired_for(followers, &ledgers, &mut start_with_room(&disk)));
    }
    let followed: Followed = followed.into_iter().sum();
    assert!(refused > 0, "no disk was full");
    Report {
        test: "disks",
        promise: "A later start on a full disk harms nothing",
        disturbances: format!("{starts} later starts without room"),
        losses: format!("0 of {writes} acknowledged writes; {followed}"),
        details: format!("{refused} of the starts refused"),
    }
    .print();
}
