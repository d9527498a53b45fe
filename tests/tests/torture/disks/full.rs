//! Disks that become full, or are full from the start, and then have room again.

use plantd_tests::torture::{self, Figures, times};
use plantd_tests::{Launch, Ledgers, SmallDisk, TestServer};

use super::faults::MOST_ROUNDS;
use super::load::{self, Failed, new_ledgers, write_until_it_fails};
use super::{assert_helps, check_repaired, start_and_end};
use crate::FEW_CHANGES_IN_MEMORY;

const ROOM: &str = "size=256m";
const ADVICE: &[&str] = &["has room"];

/// Starts where there may be no room for it. Says whether there was.
#[track_caller]
fn try_start(launch: &Launch, disk: &SmallDisk) -> bool {
    start_and_end(launch, &disk.data(), ADVICE).0
}

/// Gives the disk room, and finds everything.
#[track_caller]
fn check_with_room(disk: &SmallDisk, ledgers: &Ledgers) {
    disk.remount(ROOM);
    let mut server = TestServer::start_at(Launch::new().within(disk), &disk.data());
    check_repaired(ledgers, &mut server);
}

#[test]
fn a_disk_that_becomes_full_ends_the_server_and_with_room_everything_is_there() {
    let mut chance = torture::chance();
    let rounds = times(3, 30);
    let (mut writes, mut doubts, mut starts, mut refused) = (0, 0, 0, 0);
    let (mut not_ready_ms, mut ended_ms) = (0, 0);
    for round in 0..rounds {
        // The journal has 16 MiB of it. Some disks are filled by someone else, at once.
        let kib = chance.u32(18 * 1024..21 * 1024);
        let disk = SmallDisk::new(&format!("size={kib}k"));
        let launch = load::launch().faults(FEW_CHANGES_IN_MEMORY).within(&disk);
        let mut server = TestServer::start_at(launch.clone(), &disk.data());
        if round % 3 == 1 {
            disk.fill("of-someone-else");
        }
        let mut ledgers = new_ledgers();
        let failed = (0..MOST_ROUNDS)
            .find_map(|_| write_until_it_fails(&mut server, &mut ledgers, &mut chance));
        let Failed { not_ready_after, ended_after } =
            failed.expect("a disk that is full is noticed");
        assert_helps(&server.stderr(), server.data(), ADVICE);
        (writes, doubts) = (writes + ledgers.acknowledged(), doubts + ledgers.doubts());
        not_ready_ms = not_ready_ms.max(not_ready_after.as_millis());
        ended_ms = ended_ms.max(ended_after.as_millis());
        // A start without room may fail, and must harm nothing.
        for _ in 0..round % 3 {
            starts += 1;
            refused += u32::from(!try_start(&launch, &disk));
        }
        check_with_room(&disk, &ledgers);
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
        let is_ready = try_start(&launch, &disk);
        refused += u32::from(!is_ready);
        check_with_room(&disk, &Ledgers::of_clients(0, 0));
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
        let is_ready = try_start(&launch, &disk);
        refused += u32::from(!is_ready);
        disk.remount("nr_inodes=1000");
        check_with_room(&disk, &Ledgers::of_clients(0, 0));
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
        let mut ledgers = new_ledgers();
        let each = chance.usize(10..50);
        ledgers.write_some(&mut server, &mut chance, each);
        writes += ledgers.acknowledged();
        if round % 2 == 0 {
            server.kill();
        } else {
            assert_eq!(server.terminate().code(), Some(0));
        }
        disk.fill("of-someone-else");
        for _ in 0..3 {
            starts += 1;
            refused += u32::from(!try_start(&launch, &disk));
        }
        check_with_room(&disk, &ledgers);
    }
    assert!(refused > 0, "no disk was full");
    Figures::of("disks", "a later start on a full disk harms nothing")
        .with(starts, "later starts without room")
        .with(refused, "of them refused")
        .with(writes, "acknowledged writes all there")
        .print();
}
