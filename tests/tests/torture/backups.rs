//! Backups under load, with kills of the server and of the clients that make the backups.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{
    Client, Event, EventKind, Format, Launch, Ledgers, NewPlant, Plants, Process, TestServer,
    WriteOutcome, all_events, change_in, newest_cursor, plants_in, revision_of, store_of,
};

use crate::kill::MOST_ROWS;

const CLIENTS: i64 = 4;

/// Plants that do not change. With them, a backup takes so long that kills interrupt it.
const OTHER_PLANTS: usize = 30_000;

/// The lowest id of those, above all ids of the clients.
const FIRST_OTHER: i64 = 1_000_000;

const MAX_KILL_MS: u64 = 150;

struct Made {
    file: PathBuf,
    /// The revision of its newest change.
    position: u64,
}

fn command(arguments: &[&str], paths: &[&Path]) -> Process {
    let mut process = Launch::new().arguments(arguments).arguments(paths).spawn();
    process.wait_for_exit();
    process
}

/// Makes a backup while the clients write, and kills its client, the server, or neither. Returns the backup, if there
/// is one, and whether a backup was cut.
fn back_up(server: &mut TestServer, file: &Path, chance: &mut Rng) -> (Option<Made>, bool) {
    let url = format!("http://{}", server.address());
    let mut backup = Launch::new().arguments(["backup", "--url", &url]).arguments([file]).spawn();
    let kill_after = Duration::from_millis(chance.u64(..MAX_KILL_MS));
    match chance.u8(..3) {
        0 => {
            thread::sleep(kill_after);
            backup.send(rustix::process::Signal::KILL);
        }
        1 => {
            thread::sleep(kill_after);
            server.kill();
        }
        _ => {}
    }
    let code = backup.wait_for_exit().code();
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    let beside = fs::read_dir(file.parent().expect("a folder can be read")).expect("reads");
    let unfinished = beside
        .map(|entry| entry.expect("reads").path())
        .find(|path| path.to_string_lossy().contains(&format!("{name}.")));
    let is_cut = unfinished.is_some_and(|path| is_refused_unless_whole(&path));
    if !file.exists() {
        assert_ne!(code, Some(0), "a backup without a file: {}", backup.stderr());
        return (None, is_cut || code == Some(74));
    }
    // The client may have been killed after it had renamed the finished backup.
    let said =
        if code == Some(0) { backup.stderr() } else { command(&["verify"], &[file]).stdout() };
    let position = revision_of(change_in(&said));
    (Some(Made { file: file.to_owned(), position }), false)
}

/// Verifies and removes what a killed client has left. Returns whether it was refused; it may be complete.
fn is_refused_unless_whole(unfinished: &Path) -> bool {
    let verified = command(&["verify"], &[unfinished]);
    let is_whole = verified.stdout().contains("whole up to");
    let has_refused = verified.stderr().contains("take another one");
    assert!(is_whole != has_refused, "{}{}", verified.stdout(), verified.stderr());
    fs::remove_file(unfinished).expect("a file can be removed");
    has_refused
}

/// Restores a backup, and returns its plants. The restore checks their digest, and the export the whole folder.
fn restored(made: &Made, folder: &Path) -> Plants {
    let (data, export) = (folder.join("restored"), folder.join("restored.ndjson"));
    let mut restore =
        Launch::new().arguments(["restore", "--data"]).arguments([&data, &made.file]).spawn();
    restore.assert_exit_code(0);
    let mut exported =
        Launch::new().arguments(["export", "--data"]).arguments([&data, &export]).spawn();
    exported.assert_exit_code(0);
    fs::remove_dir_all(&data).expect("a folder can be removed");
    plants_in(&fs::read(&export).expect("a file can be read"))
}

/// The plants at the position of a backup: the versions that the last events up to there made.
fn plants_at(made: &Made, events: &[Event], client: &Client) -> Plants {
    let mut last_events = BTreeMap::new();
    for event in events.iter().take_while(|event| revision_of(&event.cursor) <= made.position) {
        last_events.insert(event.id, event);
    }
    last_events.retain(|_, event| event.kind != EventKind::Deleted);
    let versions = last_events.into_iter().map(|(id, event)| {
        let path = format!("/plants/{id}?revision={}", revision_of(&event.cursor));
        (id, NewPlant::from_json(&client.get(&path).json()))
    });
    versions.collect()
}

#[test]
fn each_backup_under_load_and_kills_is_the_store_at_its_position_or_is_refused() {
    let (mut chance, wanted) = (chance(), times(5, 500));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut server = TestServer::start();
    let others = (FIRST_OTHER..).take(OTHER_PLANTS).map(|id| {
        let name = format!("{} {id}", "Salix ".repeat(20));
        format!("{{\"id\":{id},\"name\":\"{name}\"}}\n")
    });
    server.client().import(Format::Ndjson, "", others.collect::<String>());
    let begin = newest_cursor(&server.client());
    let mut ledgers = Ledgers::of_clients(CLIENTS, MOST_ROWS);
    let (mut backups, mut cut, mut kills, mut number) = (Vec::new(), 0, 0, 0);
    let wanted = usize::try_from(wanted).expect("small");
    while backups.len() < wanted || (cut == 0 && kills < 10 * wanted) {
        let mut chance_of_kills = chance.fork();
        let kill_sometime = |server: &mut TestServer| {
            for _ in 0..8 {
                number += 1;
                let file = folder.path().join(format!("{number}.backup"));
                let (made, is_cut) = back_up(server, &file, &mut chance_of_kills);
                backups.extend(made);
                cut += u32::from(is_cut);
                if !server.process().is_running() {
                    return;
                }
            }
            server.kill();
        };
        ledgers.write(&mut server, &mut chance, || WriteOutcome::is_in_doubt, kill_sometime);
        kills += 1;
        server.restart();
        let mut store = store_of(&server.client(), "after a kill");
        assert_eq!(store.split_off(&FIRST_OTHER).len(), OTHER_PLANTS);
        ledgers.compare_and_settle(&store);
    }
    assert!(cut > 0, "no backup was cut");
    let client = server.client();
    let events = all_events(&client, &format!("limit=1000&after={begin}"));
    for made in &backups {
        let mut found = restored(made, folder.path());
        assert_eq!(found.split_off(&FIRST_OTHER).len(), OTHER_PLANTS);
        assert_eq!(found, plants_at(made, &events, &client), "the backup at {}", made.position);
    }
    assert_eq!(server.terminate().code(), Some(0));
    Report {
        test: "backups",
        promise: "A backup is the store at its position, or it is refused",
        disturbances: format!("{kills} kills of the server, {cut} backups cut"),
        losses: format!(
            "0 of {} whole backups differ from the store at their positions",
            backups.len()
        ),
        details: format!("{} changes in {CLIENTS} clients", events.len()),
    }
    .print();
}
