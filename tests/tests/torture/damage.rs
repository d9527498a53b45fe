//! Damage to the files of a database that is not served.
//!
//! A server either starts with every acknowledged write, or refuses to start and reports why.
//!
//! One case is left out, because it cannot be detected: damage to the newest record of the write-ahead log, after a
//! kill and before a table has its changes. It looks like an unfinished write (`docs/decisions/0002`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fastrand::Rng;
use plantd_tests::torture::{Report, chance, check_all, times};
use plantd_tests::{
    Client, Counts, Event, Format, Launch, NewPlant, Plants, TAGS, TOKEN, TestServer, all_events,
    assert_cursor_refused, copy_folder, files_below, newest_cursor, plants_in, store_of,
};

/// Plants that are created one by one at the end, each in its own group.
const LAST_PLANTS: i64 = 5;

const PAGE_BYTES: usize = 4096;

const AT_ONCE: usize = 4;

struct Store {
    server: TestServer,
    /// The plants as acknowledged.
    ledger: Plants,
    /// All events, and the cursor after them.
    events: Vec<Event>,
    cursor: String,
    /// Every state of every plant: an export of a damaged database may contain older states.
    ever: BTreeSet<NewPlant>,
    /// All files at earlier moments, by their paths in the data folder.
    earlier: Vec<BTreeMap<PathBuf, Vec<u8>>>,
}

impl Store {
    fn fill() -> Self {
        // Plants with long, distinct names and tags, enough for many blocks; and plants with one of a few tags.
        let [long_plants, short_plants] = [times(1_000, 3_000), times(2_000, 6_000)].map(i64::from);
        let all_plants = long_plants + short_plants;
        let mut server = TestServer::start();
        let client = server.client();
        let mut ledger = Plants::new();
        let long = |id: i64, letter: &str| {
            let text = format!("{id:06}{}", letter.repeat(249));
            NewPlant::new(id, &text, Some(&text))
        };
        let short = |id: i64, name: &str| {
            let tag = usize::try_from(id % 6).expect("small");
            NewPlant::new(id, &format!("{name} {id}"), TAGS.get(tag).copied())
        };
        let all = (0..long_plants).map(|id| long(id, "木"));
        let all = all.chain((long_plants..all_plants).map(|id| short(id, "Rosa")));
        import(&client, &mut ledger, all.collect());
        let mut earlier = Vec::new();
        // After the end of the server, tables have everything.
        let mut remember = |server: &mut TestServer| {
            assert_eq!(server.terminate().code(), Some(0));
            earlier.push(contents_of(server.data()));
            server.restart();
            server.client()
        };
        let client = remember(&mut server);
        let mut ever: BTreeSet<_> = ledger.values().cloned().collect();
        // Other names, and other tags for some of those.
        let changed = (0..long_plants).step_by(3).map(|id| long(id, "林"));
        let changed =
            changed.chain((long_plants..all_plants).step_by(5).map(|id| {
                NewPlant::new(id, &format!("Abies {id}"), (id % 2 == 0).then_some(TAGS[1]))
            }));
        import(&client, &mut ledger, changed.collect());
        let client = remember(&mut server);
        ever.extend(ledger.values().cloned());
        for id in (0..all_plants).step_by(100) {
            client.delete(id).assert_no_content();
            ledger.remove(&id);
        }
        let client = remember(&mut server);
        for id in -LAST_PLANTS..0 {
            let plant = NewPlant::new(id, &last_name(id), Some(TAGS[0]));
            client.create_from(&plant.json()).assert_plant(&plant.name, Some(TAGS[0]));
            ledger.insert(id, plant);
        }
        ever.extend(ledger.values().cloned());
        let events = all_events(&client, "limit=1000");
        let cursor = newest_cursor(&client);
        Self { server, ledger, events, cursor, ever, earlier }
    }
}

fn contents_of(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files_below(&data.join("plants"));
    let content = |path: &PathBuf| {
        let name = path.strip_prefix(data).expect("the file is below the folder").to_owned();
        (name, fs::read(path).expect("a file can be read"))
    };
    files.iter().map(content).collect()
}

fn last_name(id: i64) -> String {
    format!("one of the last plants {id}")
}

fn import(client: &Client, ledger: &mut Plants, plants: Vec<NewPlant>) {
    let is_new = |plant: &&NewPlant| !ledger.contains_key(&plant.id);
    let created = plants.iter().filter(is_new).count() as u64;
    let replaced = plants.len() as u64 - created;
    let answer = client.import(Format::Ndjson, "on_conflict=replace", Format::Ndjson.body(&plants));
    answer.assert_report(Counts { created, replaced, ..Counts::default() });
    ledger.extend(plants.into_iter().map(|plant| (plant.id, plant)));
}

struct Damage {
    what: &'static str,
    /// The changed bytes; empty if the file was truncated or removed.
    range: Range<usize>,
    /// The file afterwards; `None` if it was removed.
    after: Option<Vec<u8>>,
}

/// An earlier state of the file, or another file of its kind, as if the disk had lost later writes or written them to
/// the wrong place.
const STALE: &str = "a stale file";

impl Damage {
    fn random(chance: &mut Rng, before: &[u8]) -> Self {
        let length = before.len();
        let at = chance.usize(0..length.max(1));
        let change = |what, range: Range<usize>, change: &dyn Fn(u8) -> u8| {
            let mut after = before.to_vec();
            after[range.clone()].iter_mut().for_each(|byte| *byte = change(*byte));
            Self { what, range, after: Some(after) }
        };
        match chance.u32(0..20) {
            0..8 => change("a flipped bit", at..length.min(at + 1), &|byte| byte ^ (1 << (at % 8))),
            8..12 => {
                let end = length.min(at + chance.usize(1..=64));
                change("inverted bytes", at..end, &|byte| !byte)
            }
            12..16 => {
                let page = at / PAGE_BYTES * PAGE_BYTES;
                change("a zeroed page", page..length.min(page + PAGE_BYTES), &|_| 0)
            }
            16..19 => Self { what: "a cut", range: 0..0, after: Some(before[..at].to_vec()) },
            _ => Self { what: "removal", range: 0..0, after: None },
        }
    }

    /// Another content that this file or a neighbor has or had.
    fn stale(chance: &mut Rng, file: &Path, before: &[u8], store: &Store) -> Option<Self> {
        let now = contents_of(store.server.data());
        let moments = store.earlier.iter().chain([&now]);
        let alike = moments.flatten().filter(|(path, content)| {
            path.parent() == file.parent()
                && (path.as_path() == file || is_table(file))
                && *content != before
        });
        let alike: Vec<&Vec<u8>> = alike.map(|(_, content)| content).collect();
        let after = (*chance.choice(&alike)?).clone();
        Some(Self { what: STALE, range: 0..before.len(), after: Some(after) })
    }
}

fn is_table(file: &Path) -> bool {
    file.starts_with("plants/tables")
}

/// The range of the newest record of the write-ahead log, if it is in this file.
fn last_record(file: &[u8]) -> Option<Range<usize>> {
    let find =
        |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).rposition(|found| found == word);
    let name = find(file, last_name(-1).as_bytes())?;
    // A table may contain the plant too, but only the log has heads of records.
    let start = find(&file[..name], b"pljr")?;
    Some(start..name + last_name(-1).len() + 16)
}

/// Starts a server on a damaged folder, which must serve every plant or report what is wrong. Returns whether it
/// serves.
fn serves_damaged(data: &Path, store: &Store, what: &str) -> bool {
    let mut process = Launch::new().data(data).spawn();
    if !process.becomes_ready() {
        let status = process.wait_for_exit();
        let said = process.stderr();
        assert_eq!(status.code(), Some(74), "{what}: {status}: {said}");
        let plants = data.join("plants");
        assert!(said.contains(plants.to_str().expect("UTF-8")), "{what}: no place: {said}");
        let advises = ["restore a backup", "put it back"].iter().any(|words| said.contains(words));
        assert!(advises, "{what}: what to do is not said: {said}");
        return false;
    }
    let client = Client::new(process.address(), Some(TOKEN));
    let plants = store_of(&client, what);
    assert!(plants == store.ledger, "{what}: other plants are served");
    assert!(all_events(&client, "limit=1000") == store.events, "{what}: other events are served");
    let answer = client.create(i64::MAX, "Rosa", None);
    answer.assert_plant("Rosa", None);
    let missed = all_events(&client, &format!("after={}", store.cursor));
    assert!(matches!(missed[..], [Event { id: i64::MAX, .. }]), "{what}: {missed:?}");
    process.send_terminate();
    assert_eq!(process.wait_for_exit().code(), Some(0), "{what}: {}", process.stderr());
    true
}

/// Asserts that `plantd verify` finds the damage in a folder that cannot be served, and that `plantd export --data`
/// exports only plants that were acknowledged once. Returns their number.
fn check_repair(data: &Path, store: &Store, what: &str) -> usize {
    let mut verify = Launch::new().data(data).arguments(["verify"]).spawn();
    let status = verify.wait_for_exit();
    let said = verify.stdout() + &verify.stderr();
    assert!(matches!(status.code(), Some(1 | 74)), "{what}: {status}: {said}");
    assert!(!said.trim().is_empty(), "{what}: verify says nothing");

    let file = data.join("saved.ndjson");
    let words = [Path::new("export"), Path::new("--data"), data, &file];
    let mut export = Launch::new().arguments(words).spawn();
    let status = export.wait_for_exit();
    assert!(matches!(status.code(), Some(0 | 1 | 74)), "{what}: {status}: {}", export.stderr());
    let Ok(rows) = fs::read(&file) else {
        assert_eq!(status.code(), Some(74), "{what}: {}", export.stderr());
        return 0;
    };
    let saved = plants_in(&rows);
    for plant in saved.values() {
        assert!(store.ever.contains(plant), "{what}: {plant:?} was never there");
    }
    if status.code() == Some(0) {
        assert_eq!(
            saved.len(),
            store.ledger.len(),
            "{what}: the export leaves out plants silently"
        );
    }
    saved.len()
}

#[derive(Default)]
struct Tally {
    whole: usize,
    refused: usize,
    /// How many of both had stale files.
    stale: u32,
    left_out: u32,
    /// Plants exported from refused databases.
    saved: usize,
}

impl Tally {
    /// Damages copies of a database that is not served, and starts a server on each.
    fn check(&mut self, store: &Store, was_killed: bool, damages: u32, chance: &mut Rng) {
        let whole = store.server.data();
        let files = files_below(&whole.join("plants"));
        let cases: Vec<_> = (0..damages).map(|number| (number % 4 == 0, chance.fork())).collect();
        let tally = Mutex::new(self);
        let tally = || tally.lock().expect("no check panicked");
        check_all(AT_ONCE, cases, |(is_stale, mut chance)| {
            let (file, before, Damage { what, range, after }) = loop {
                let path = chance.choice(&files).expect("some");
                let file = path.strip_prefix(whole).expect("below");
                let before = fs::read(path).expect("a file can be read");
                let stale =
                    if is_stale { Damage::stale(&mut chance, file, &before, store) } else { None };
                let damage = stale.unwrap_or_else(|| Damage::random(&mut chance, &before));
                if damage.after.as_ref() != Some(&before) {
                    break (file, before, damage);
                }
            };
            let last = if was_killed { last_record(&before) } else { None };
            if last.is_some_and(|last| range.start < last.end && last.start < range.end) {
                tally().left_out += 1;
                return;
            }
            let folder = tempfile::tempdir().expect("a temporary folder can be made");
            let data = folder.path().join("data");
            copy_folder(whole, &data);
            match &after {
                Some(bytes) => fs::write(data.join(file), bytes).expect("a file can be written"),
                None => fs::remove_file(data.join(file)).expect("a file can be removed"),
            }
            let what_of = format!("{what} of {} ({range:?})", file.display());
            let is_served = serves_damaged(&data, store, &what_of);
            let saved = if is_served { 0 } else { check_repair(&data, store, &what_of) };
            let mut tally = tally();
            tally.stale += u32::from(what == STALE);
            tally.whole += usize::from(is_served);
            tally.refused += usize::from(!is_served);
            tally.saved += saved;
        });
    }
}

#[test]
fn a_damaged_database_is_served_whole_or_not_at_all() {
    let (mut chance, mut tally) = (chance(), Tally::default());
    let mut store = Store::fill();
    let tables = files_below(&store.server.data().join("plants/tables"));
    assert!(tables.len() > 1, "one table cannot stand in the place of another");
    store.server.kill();
    tally.check(&store, true, times(8, 260), &mut chance);

    // The same folder after an orderly start and end.
    store.server.restart();
    assert_eq!(store.server.terminate().code(), Some(0));
    tally.check(&store, false, times(8, 260), &mut chance);

    let Tally { whole, refused, stale, left_out, saved } = tally;
    assert!(refused > 0, "no damage was noticed");
    assert!(stale > 0, "no file was stale");
    let (all, in_refused) = (whole + refused, refused * store.ledger.len());
    Report {
        test: "damage",
        promise: "A damaged database is served completely or not at all",
        disturbances: format!("{all} damages to its files, {stale} of them stale files"),
        losses: format!("0 of {all} starts served less than all plants and all events"),
        details: format!("{whole} starts served everything, {refused} said what is wrong and ended; `plantd export --data` saved {saved} of {in_refused} \
             plants from those; {left_out} damages to the last record of the write-ahead log after a kill are left out"),
    }
    .print();
}

/// Such a cursor must not lead to the new events that take the place of the lost ones.
#[test]
fn a_cursor_of_events_that_an_older_copy_of_the_database_lacks_is_refused() {
    const PLANTS_BEFORE: i64 = 20;
    const PLANTS_LOST: i64 = 10;
    let mut server = TestServer::start();
    let create = |server: &TestServer, ids: Range<i64>| {
        let client = server.client();
        ids.for_each(|id| client.create(id, "Rosa", None).assert_plant("Rosa", None));
        newest_cursor(&client)
    };
    let old = create(&server, 0..PLANTS_BEFORE);
    assert_eq!(server.terminate().code(), Some(0));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let copy = folder.path().join("copy");
    copy_folder(server.data(), &copy);
    server.restart();
    let lost: Vec<String> = (PLANTS_BEFORE..PLANTS_BEFORE + PLANTS_LOST)
        .map(|id| create(&server, id..id + 1))
        .collect();
    server.kill();
    fs::remove_dir_all(server.data()).expect("a folder can be removed");
    copy_folder(&copy, server.data());
    server.restart();
    let client = server.client();
    let assert_refused = || lost.iter().for_each(|cursor| assert_cursor_refused(&client, cursor));
    assert_refused();
    let after_old = format!("after={old}");
    assert_eq!(all_events(&client, &after_old), [], "the log ends where the copy was made");
    create(&server, -1..0);
    let next = all_events(&client, &after_old);
    assert!(matches!(next[..], [Event { id: -1, .. }]), "{next:?}");
    // Even when other events have the numbers of the lost ones.
    create(&server, -1 - PLANTS_LOST..-1);
    assert_refused();
}

/// A running server reads blocks on demand, so it meets damage late.
#[test]
fn damage_under_a_running_server_causes_errors_and_never_a_wrong_answer() {
    // Many times the plants that fit into the cache.
    const PLANTS: i64 = 20_000;
    let mut server = TestServer::start_with(Launch::new().arguments(["--cache-mb", "1"]));
    let text = "木".repeat(240);
    let plant = |id: i64| NewPlant::new(id, &format!("{text} {id}"), Some("Rosaceae"));
    let plants: Vec<_> = (0..PLANTS).map(plant).collect();
    import(&server.client(), &mut Plants::new(), plants);
    assert_eq!(server.terminate().code(), Some(0));
    server.restart();
    let client = server.client();

    for path in files_below(&server.data().join("plants/tables")) {
        // Written in place, because the server has the file open.
        let file = File::options().write(true).open(&path).expect("a file can be opened");
        let length = usize::try_from(file.metadata().expect("a file").len()).expect("small");
        file.write_all_at(&vec![0; length], 0).expect("writes");
    }
    let mut errors = 0;
    for id in (0..PLANTS).step_by(91) {
        let answer = client.read(id);
        match answer.status {
            200 => answer.assert_new_plant(id, &plant(id).name, Some("Rosaceae")),
            500 => drop(answer.assert_error(500, 5001)),
            _ => drop(answer.assert_error(503, 5002)),
        }
        errors += u32::from(answer.status != 200);
        let page = client.list(&format!("after={}&limit=1", id - 1));
        match page.status {
            200 => assert_eq!(page.plants(), [plant(id)]),
            _ => drop(page.assert_error(503, 5002)),
        }
    }
    assert!(errors > 0, "everything was in memory");
    assert_eq!(client.get("/livez").status, 200);
    server.kill();
}
