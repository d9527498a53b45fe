//! Disks that become full, or are full from the start, and then have room again.

use std::path::Path;

use plantd_tests::torture::{self, Figures, times};
use plantd_tests::{Launch, SmallDisk, TestServer, wait_for};

use super::ledger::Ledger;
use super::load::{self, Ended, Failed, write_until_it_fails};
use super::{IO, assert_helps};

const ROOM: &str = "size=256m";
const ADVICE: &[&str] = &["has room"];

/// Starts where there may be no room for it: it serves, or says that there is none.
#[track_caller]
fn try_start(launch: &Launch, data: &Path) -> bool {
    let mut process = launch.clone().data(data).spawn();
    let is_ready = wait_for("a start without room", || {
        if process.stdout().contains('\n') {
            return Some(true);
        }
        (!process.is_running()).then_some(false)
    });
    if is_ready {
        process.send_terminate();
    }
    let code = process.wait_for_exit().code();
    let stderr = process.stderr();
    if code != Some(0) || !is_ready {
        assert_eq!(code, Some(IO), "{stderr}");
        assert_helps(&stderr, data, ADVICE);
    }
    is_ready
}

/// Gives the disk room, and finds everything.
#[track_caller]
fn check_with_room(disk: &SmallDisk, ledger: &mut Ledger) {
    disk.remount(ROOM);
    let mut server = TestServer::start_at(Launch::new().within(disk), &disk.data());
    ledger.check(&server.client());
    server.client().create(1_000_000, "Abies", None).assert_plant("Abies", None);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_disk_that_becomes_full_ends_the_server_and_with_room_everything_is_there() {
    let mut chance = torture::chance();
    let rounds = times(3, 30);
    let (mut writes, mut doubts, mut starts, mut refused) = (0, 0, 0, 0);
    let (mut not_ready_ms, mut ended_ms) = (0, 0);
    for round in 0..rounds {
        // The journal has 8 MiB of it. Some disks are filled by someone else, at once.
        let kib = chance.u32(10 * 1024..20 * 1024);
        let disk = SmallDisk::new(&format!("size={kib}k"));
        let launch = load::launch().within(&disk);
        let mut server = TestServer::start_at(launch.clone(), &disk.data());
        if round % 3 == 1 {
            disk.fill("of-someone-else");
        }
        let Ended { failed, mut ledger } = write_until_it_fails(&mut server);
        let Failed { not_ready_after, ended_after } =
            failed.expect("a disk that is full is noticed");
        assert_helps(&server.stderr(), server.data(), ADVICE);
        (writes, doubts) = (writes + ledger.writes(), doubts + ledger.doubts());
        not_ready_ms = not_ready_ms.max(not_ready_after.as_millis());
        ended_ms = ended_ms.max(ended_after.as_millis());
        // A start without room may fail, and must harm nothing.
        for _ in 0..round % 3 {
            starts += 1;
            refused += u32::from(!try_start(&launch, &disk.data()));
        }
        check_with_room(&disk, &mut ledger);
    }
    Figures::of("disks", "a disk that becomes full loses nothing acknowledged")
        .with(rounds, "disks filled")
        .with(writes, "acknowledged writes all there")
        .with(doubts, "other writes whole or not there")
        .with(starts, "starts without room")
        .with(refused, "of them refused")
        .with(not_ready_ms, "ms at most until /readyz told")
        .with(ended_ms, "ms at most until the end")
        .print();
}

#[test]
fn a_first_start_on_a_full_disk_says_so_and_with_room_the_next_one_works() {
    let mut chance = torture::chance();
    let (mut starts, mut refused) = (0, 0);
    // Up to where there is room enough.
    let mut kib = 4;
    let step = times(900, 60);
    loop {
        let disk = SmallDisk::new(&format!("size={kib}k"));
        let launch = Launch::new().without_environment("PLANTD_TOKEN").within(&disk);
        starts += 1;
        let is_ready = try_start(&launch, &disk.data());
        refused += u32::from(!is_ready);
        check_with_room(&disk, &mut Ledger::default());
        if is_ready {
            break;
        }
        kib += chance.u32(step / 2..=step);
    }
    assert!(refused > 0, "no disk was too small");
    // And where there is no room for one more file.
    for files in 2..=16 {
        let disk = SmallDisk::new(&format!("nr_inodes={files}"));
        let launch = Launch::new().without_environment("PLANTD_TOKEN").within(&disk);
        starts += 1;
        let is_ready = try_start(&launch, &disk.data());
        refused += u32::from(!is_ready);
        disk.remount("nr_inodes=1000");
        check_with_room(&disk, &mut Ledger::default());
        if is_ready {
            break;
        }
    }
    Figures::of("disks", "a first start on a full disk says so, and with room the next one works")
        .with(starts, "first starts")
        .with(refused, "of them refused")
        .print();
}

#[test]
fn a_later_start_on_a_full_disk_harms_nothing() {
    let rounds = times(2, 20);
    let mut chance = torture::chance();
    let (mut starts, mut refused, mut writes) = (0, 0, 0);
    for round in 0..rounds {
        let disk = SmallDisk::new("size=64m");
        let launch = load::launch().within(&disk);
        let mut server = TestServer::start_at(launch.clone(), &disk.data());
        let client = server.client();
        let mut ledger = Ledger::default();
        for id in 0..chance.i64(100..1000) {
            let plant = load::long_plant(id, 0);
            client.create_from(&plant.json()).assert_plant(&plant.name, plant.tag.as_deref());
            ledger.acknowledge(id, Some(plant));
        }
        writes += ledger.writes();
        if round % 2 == 0 {
            server.kill();
        } else {
            assert_eq!(server.terminate().code(), Some(0));
        }
        disk.fill("of-someone-else");
        for _ in 0..3 {
            starts += 1;
            refused += u32::from(!try_start(&launch, &disk.data()));
        }
        check_with_room(&disk, &mut ledger);
    }
    Figures::of("disks", "a later start on a full disk harms nothing")
        .with(starts, "later starts without room")
        .with(refused, "of them refused")
        .with(writes, "acknowledged writes all there")
        .print();
}
