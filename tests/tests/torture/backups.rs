//! Backups under load, with kills of the server and of the clients that make the backups.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use plantd_tests::torture::{Report, SetOnDrop, chance, times};
use plantd_tests::{
    Answer, Client, EventKind, Format, Launch, Plants, Process, TestServer, all_events, change_in,
    newest_cursor, plants_in, replacement_body, revision_of,
};

const CLIENTS: i64 = 4;

/// How many ids each client has.
const IDS: i64 = 16;

/// Plants that do not change. With them, a backup takes so long that kills interrupt it.
const OTHER_PLANTS: i64 = 30_000;

const MAX_KILL_MS: u64 = 150;

/// The name of the plant that each revision wrote.
type Names = BTreeMap<u64, String>;

/// A client that writes to its own plants, one after the other.
struct Writer {
    number: i64,
    chance: Rng,
    /// The names it has written, by revision.
    names: Names,
    /// The plant whose last write got no answer.
    in_doubt: Option<i64>,
    written: u64,
}

impl Writer {
    /// Writes until a request gets no answer, or `is_over`.
    fn write(&mut self, client: &Client, is_over: &AtomicBool) {
        if let Some(id) = self.in_doubt {
            match client.try_send("GET", &format!("/plants/{id}"), &[], "") {
                Ok(answer) => self.note(&answer),
                // The server was killed again.
                Err(_) => return,
            }
            self.in_doubt = None;
        }
        while !is_over.load(Ordering::Relaxed) {
            let id = self.number * IDS + self.chance.i64(0..IDS);
            let answer = if self.chance.u8(..4) == 0 {
                client.try_send("DELETE", &format!("/plants/{id}"), &[], "")
            } else {
                self.written += 1;
                let name = format!("Rosa {} of {}", self.written, self.number);
                let body = replacement_body(&name, None);
                let json = [("content-type", "application/json")];
                client.try_send("PUT", &format!("/plants/{id}"), &json, &body)
            };
            match answer {
                Ok(answer) => self.note(&answer),
                Err(_) => {
                    self.in_doubt = Some(id);
                    return;
                }
            }
        }
    }

    /// Records the revision and the name in an answer, if it has them.
    fn note(&mut self, answer: &Answer) {
        if answer.header("etag").is_some() {
            let name = answer.json()["name"].as_str().expect("a name").to_owned();
            self.names.insert(answer.revision(), name);
        }
    }
}

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

#[test]
fn each_backup_under_load_and_kills_is_the_store_at_its_position_or_is_refused() {
    let (mut chance, wanted) = (chance(), times(12, 500));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut server = TestServer::start();
    let others = (0..OTHER_PLANTS).map(|id| {
        let name = format!("{} {id}", "Salix ".repeat(20));
        format!("{{\"id\":{},\"name\":\"{name}\"}}\n", 1_000_000 + id)
    });
    server.client().import(Format::Ndjson, "", others.collect::<String>());
    let begin = newest_cursor(&server.client());
    let new_writer = |number| Writer {
        number,
        chance: chance.fork(),
        names: Names::new(),
        in_doubt: None,
        written: 0,
    };
    let mut writers: Vec<Writer> = (0..CLIENTS).map(new_writer).collect();
    let (mut backups, mut cut, mut kills) = (Vec::new(), 0, 0);
    let mut number = 0;
    while backups.len() < usize::try_from(wanted).expect("small") {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _over = SetOnDrop(&is_over);
            let clients: Vec<_> = writers.iter().map(|_| server.client()).collect();
            for (writer, client) in writers.iter_mut().zip(clients) {
                let is_over = &is_over;
                scope.spawn(move || writer.write(&client, is_over));
            }
            // Until the server is killed, or often enough.
            for _ in 0..8 {
                number += 1;
                let file = folder.path().join(format!("{number}.backup"));
                let (made, is_cut) = back_up(&mut server, &file, &mut chance);
                backups.extend(made);
                cut += u32::from(is_cut);
                if !server.process().is_running() {
                    kills += 1;
                    break;
                }
            }
        });
        if !server.process().is_running() {
            server.restart();
        }
    }
    let client = server.client();
    let is_over = AtomicBool::new(true);
    writers.iter_mut().for_each(|writer| writer.write(&client, &is_over));
    let names: Names = writers.into_iter().flat_map(|writer| writer.names).collect();
    let events = all_events(&client, &format!("limit=1000&after={begin}"));

    for made in &backups {
        let mut expected = BTreeMap::new();
        for event in events.iter().take_while(|event| revision_of(&event.cursor) <= made.position) {
            match event.kind {
                EventKind::Deleted => drop(expected.remove(&event.id)),
                _ => drop(expected.insert(event.id, names[&revision_of(&event.cursor)].clone())),
            }
        }
        let found = restored(made, folder.path());
        let (others, found): (Plants, Plants) =
            found.into_iter().partition(|(id, _)| *id >= 1_000_000);
        assert_eq!(i64::try_from(others.len()), Ok(OTHER_PLANTS));
        let found: BTreeMap<_, _> = found.into_iter().map(|(id, plant)| (id, plant.name)).collect();
        assert_eq!(found, expected, "the backup at {}", made.position);
    }
    assert!(cut > 0 && kills > 0, "no backup was cut");
    assert_eq!(server.terminate().code(), Some(0));
    Report {
        test: "backups",
        promise: "A backup is the store at its position, or it is refused",
        disturbances: format!("{kills} kills of the server, {cut} backups cut"),
        losses: format!("0 of {} whole backups differ from the ledger", backups.len()),
        details: format!("{} changes in {CLIENTS} clients", events.len()),
    }
    .print();
}
