//! Damage to the files of a database that is not served.
//!
//! A server either starts with everything that was acknowledged, or it does not start and says why.
//!
//! One case is left out, because nothing can tell it apart: the newest records of the journal, after a kill in the half
//! second before sled has written the same (`docs/decisions/0002`). A damaged record there looks like one that was
//! never finished.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{
    Client, Counts, Format, Launch, NewPlant, Plants, TAGS, TOKEN, TestServer, copy_folder,
    plants_in, store_of,
};

/// Plants with a long name and a long tag of their own: enough for many segments of sled's file.
const LONG_PLANTS: i64 = 3_000;

/// Plants with one of a few tags.
const SHORT_PLANTS: i64 = 6_000;

/// Plants that are created one by one at the end, each in a group of its own.
const LAST_PLANTS: i64 = 5;

/// A page, in bytes.
const PAGE_BYTES: u64 = 4096;

/// The longest stale stretch, in pages: a segment of sled's file.
const STRETCH_PAGES: u64 = 128;

/// The file that holds most of the data.
const SLED_FILE: &str = "plants/sled/db";

/// A filled database, and what it should hold.
struct Store {
    server: TestServer,
    /// The plants as acknowledged.
    ledger: Plants,
    /// All plants as they ever were: an export of a damaged database may contain older states.
    ever: BTreeSet<NewPlant>,
    /// Sled's file at earlier moments.
    earlier: Vec<Vec<u8>>,
}

impl Store {
    fn fill() -> Self {
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
        let all = (0..LONG_PLANTS).map(|id| long(id, "木"));
        let all = all.chain((LONG_PLANTS..LONG_PLANTS + SHORT_PLANTS).map(|id| short(id, "Rosa")));
        import(&client, &mut ledger, all.collect());
        let sled_file = server.data().join(SLED_FILE);
        // Sled has everything when the server has ended.
        let moment = |server: &mut TestServer| {
            assert_eq!(server.terminate().code(), Some(0));
            let stood = fs::read(&sled_file).expect("reads");
            server.restart();
            (stood, server.client())
        };
        let (stood, client) = moment(&mut server);
        let mut earlier = vec![stood];
        let mut ever: BTreeSet<_> = ledger.values().cloned().collect();
        // Other names, and other tags for some of those.
        let changed = (0..LONG_PLANTS).step_by(3).map(|id| long(id, "林"));
        let changed =
            changed.chain((LONG_PLANTS..LONG_PLANTS + SHORT_PLANTS).step_by(5).map(|id| {
                NewPlant::new(id, &format!("Abies {id}"), (id % 2 == 0).then_some(TAGS[1]))
            }));
        import(&client, &mut ledger, changed.collect());
        let (stood, client) = moment(&mut server);
        earlier.push(stood);
        ever.extend(ledger.values().cloned());
        for id in (0..LONG_PLANTS + SHORT_PLANTS).step_by(100) {
            client.delete(id).assert_no_content();
            ledger.remove(&id);
        }
        let (stood, client) = moment(&mut server);
        earlier.push(stood);
        for id in -LAST_PLANTS..0 {
            let plant = NewPlant::new(id, &last_name(id), Some(TAGS[0]));
            client.create_from(&plant.json()).assert_plant(&plant.name, Some(TAGS[0]));
            ledger.insert(id, plant);
        }
        ever.extend(ledger.values().cloned());
        Self { server, ledger, ever, earlier }
    }
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

/// Damage to a file.
#[derive(Clone, Debug)]
enum Damage {
    FlipBit(u64),
    /// Inverts a run of bytes.
    Overwrite(Range<u64>),
    Zero(Range<u64>),
    CutAt(u64),
    Remove,
    /// Restores a stretch of sled's file to an earlier moment, as if the disk had lost later writes.
    Earlier {
        moment: usize,
        stretch: Range<u64>,
    },
}

impl Damage {
    /// Random damage to a file of this length.
    fn random(chance: &mut Rng, length: u64) -> Self {
        let at = chance.u64(0..length.max(1));
        match chance.u32(0..20) {
            0..8 => Self::FlipBit(at),
            8..12 => Self::Overwrite(at..length.min(at + chance.u64(1..=64))),
            12..16 => {
                let page = at / PAGE_BYTES * PAGE_BYTES;
                Self::Zero(page..length.min(page + PAGE_BYTES))
            }
            16..19 => Self::CutAt(at),
            _ => Self::Remove,
        }
    }

    /// A stale stretch of a file of this length, which begins with one of these pages.
    fn earlier(chance: &mut Rng, stale: &[StalePage], length: u64) -> Option<Self> {
        let StalePage { moment, page } = *chance.choice(stale)?;
        let most = if chance.bool() { STRETCH_PAGES } else { 1 };
        let end = (page + chance.u64(1..=most)) * PAGE_BYTES;
        Some(Self::Earlier { moment, stretch: page * PAGE_BYTES..length.min(end) })
    }

    /// Damages a file. Returns whether that changed anything.
    fn apply(&self, path: &Path, earlier: &[Vec<u8>]) -> bool {
        let before = fs::read(path).expect("the file is there");
        self.change(path, earlier);
        fs::read(path).ok() != Some(before)
    }

    fn change(&self, path: &Path, earlier: &[Vec<u8>]) {
        let file = File::options().read(true).write(true).open(path).expect("the file is there");
        let bytes_of = |range: &Range<u64>| {
            let mut bytes = vec![0; usize::try_from(range.end - range.start).expect("small")];
            file.read_exact_at(&mut bytes, range.start).expect("reads");
            bytes
        };
        match self {
            Self::FlipBit(at) if file.metadata().expect("a file").len() > *at => {
                let mut byte = bytes_of(&(*at..at + 1));
                byte[0] ^= 1 << (at % 8);
                file.write_all_at(&byte, *at).expect("writes");
            }
            Self::FlipBit(_) => {}
            Self::Overwrite(range) => {
                let mut bytes = bytes_of(range);
                bytes.iter_mut().for_each(|byte| *byte = !*byte);
                file.write_all_at(&bytes, range.start).expect("writes");
            }
            Self::Zero(range) => {
                let zeros = vec![0; bytes_of(range).len()];
                file.write_all_at(&zeros, range.start).expect("writes");
            }
            Self::CutAt(length) => file.set_len(*length).expect("cuts"),
            Self::Remove => fs::remove_file(path).expect("removes"),
            Self::Earlier { moment, stretch } => {
                // Beyond its end at that moment it reads as zeros.
                let mut bytes = vec![0; bytes_of(stretch).len()];
                let begin = usize::try_from(stretch.start).expect("small");
                let stood = earlier[*moment].iter().skip(begin);
                bytes.iter_mut().zip(stood).for_each(|(byte, stood)| *byte = *stood);
                file.write_all_at(&bytes, stretch.start).expect("writes");
            }
        }
    }

    /// The damaged bytes.
    fn range(&self) -> Option<Range<u64>> {
        match self {
            Self::FlipBit(at) => Some(*at..at + 1),
            Self::Overwrite(range) | Self::Zero(range) | Self::Earlier { stretch: range, .. } => {
                Some(range.clone())
            }
            Self::CutAt(_) | Self::Remove => None,
        }
    }
}

/// A page of sled's file that was written after an earlier moment.
#[derive(Clone, Copy)]
struct StalePage {
    moment: usize,
    page: u64,
}

/// All stale pages, without those beyond the end at the earlier moment: they would be zeros, which is another damage.
fn stale_pages(store: &Store) -> Vec<StalePage> {
    let now = fs::read(store.server.data().join(SLED_FILE)).expect("reads");
    let page_bytes = usize::try_from(PAGE_BYTES).expect("small");
    let stale_since = |(moment, stood): (usize, &Vec<u8>)| {
        let pages = (0..).zip(now.chunks(page_bytes).zip(stood.chunks(page_bytes)));
        let stale = pages.filter(|(_, (now, stood))| now != stood);
        stale.map(|(page, _)| StalePage { moment, page }).collect::<Vec<_>>()
    };
    store.earlier.iter().enumerate().flat_map(stale_since).collect()
}

/// The fate of a damaged database.
#[derive(Debug, PartialEq)]
enum Outcome {
    Whole,
    Refused,
}

/// The paths of all files of the database, relative to the data folder.
fn files(data: &Path) -> Vec<PathBuf> {
    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, files);
            } else {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    collect(&data.join("plants"), &mut files);
    files.sort();
    files.iter().map(|path| path.strip_prefix(data).expect("below it").to_owned()).collect()
}

/// The range of the journal's last record, if it is in this file.
fn last_record(path: &Path) -> Option<Range<u64>> {
    let bytes = fs::read(path).expect("reads");
    let find =
        |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).rposition(|found| found == word);
    let name = find(&bytes, last_name(-1).as_bytes())?;
    // Sled's file may contain the plant too, but no heads of records.
    let start = find(&bytes[..name], b"pljr")?;
    Some(start as u64..(name + last_name(-1).len() + 16) as u64)
}

/// Starts a server on a damaged folder. Either it serves everything, or it says what is wrong.
fn start_damaged(data: &Path, store: &Store, what: &str) -> Outcome {
    let mut process = Launch::new().data(data).spawn();
    if !process.becomes_ready() {
        let status = process.wait_for_exit();
        let said = process.stderr();
        assert_eq!(status.code(), Some(74), "{what}: {status}: {said}");
        let plants = data.join("plants");
        assert!(said.contains(plants.to_str().expect("UTF-8")), "{what}: no place: {said}");
        let advises = ["restore a backup", "put it back"].iter().any(|words| said.contains(words));
        assert!(advises, "{what}: what to do is not said: {said}");
        return Outcome::Refused;
    }
    let client = Client::new(process.address(), Some(TOKEN));
    let plants = store_of(&client, what);
    assert!(plants == store.ledger, "{what}: other plants are served");
    let answer = client.create(i64::MAX, "Rosa", None);
    answer.assert_plant("Rosa", None);
    process.send_terminate();
    assert_eq!(process.wait_for_exit().code(), Some(0), "{what}: {}", process.stderr());
    Outcome::Whole
}

/// Claims that `plantd verify` finds fault with a folder that is not served, and that `plantd export --data` exports
/// only plants that were acknowledged once. Returns how many it exports.
fn check_repair(data: &Path, store: &Store, what: &str) -> usize {
    let mut verify = Launch::new().data(data).arguments(["verify"]).spawn();
    let status = verify.wait_for_exit();
    let said = verify.stdout() + &verify.stderr();
    assert!(matches!(status.code(), Some(1 | 74)), "{what}: {status}: {said}");
    assert!(!said.trim().is_empty(), "{what}: it says nothing");

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
        assert_eq!(saved.len(), store.ledger.len(), "{what}: some are left out in silence");
    }
    saved.len()
}

#[derive(Default)]
struct Tally {
    whole: u32,
    refused: u32,
    /// Stale stretches among both.
    earlier: u32,
    left_out: u32,
    saved: usize,
    in_refused: usize,
}

fn check_damage(
    store: &Store,
    was_killed: bool,
    damages: u32,
    chance: &mut Rng,
    tally: &mut Tally,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let files = files(store.server.data());
    let (data, stale) = (folder.path().join("data"), stale_pages(store));
    let mut done = 0;
    while done < damages {
        copy_folder(store.server.data(), &data);
        // Most data are in sled's one file.
        let file = match chance.bool() {
            true => Path::new(SLED_FILE),
            false => &files[chance.usize(0..files.len())],
        };
        let path = data.join(file);
        let length = fs::metadata(&path).expect("a file").len();
        let is_stale = file == Path::new(SLED_FILE) && chance.bool();
        let stretch = if is_stale { Damage::earlier(chance, &stale, length) } else { None };
        let damage = stretch.unwrap_or_else(|| Damage::random(chance, length));
        if was_killed
            && let (Some(last), Some(range)) = (last_record(&path), damage.range())
            && range.start < last.end
            && last.start < range.end
        {
            tally.left_out += 1;
            done += 1;
        } else if damage.apply(&path, &store.earlier) {
            done += 1;
            tally.earlier += u32::from(matches!(damage, Damage::Earlier { .. }));
            let what = format!("{damage:?} of {}", file.display());
            match start_damaged(&data, store, &what) {
                Outcome::Whole => tally.whole += 1,
                Outcome::Refused => {
                    tally.refused += 1;
                    tally.saved += check_repair(&data, store, &what);
                    tally.in_refused += store.ledger.len();
                }
            }
        }
        fs::remove_dir_all(&data).expect("removes");
    }
}

#[test]
fn a_damaged_database_is_served_whole_or_not_at_all() {
    let (mut chance, mut tally) = (chance(), Tally::default());
    let mut store = Store::fill();
    let blocks = |server: &TestServer| fs::metadata(server.data().join(SLED_FILE));
    assert!(blocks(&store.server).expect("a file").len() > 4 * 1024 * 1024, "several segments");
    store.server.kill();
    check_damage(&store, true, times(15, 250), &mut chance, &mut tally);

    // The same folder after an orderly start and end.
    store.server.restart();
    assert_eq!(store.server.terminate().code(), Some(0));
    check_damage(&store, false, times(15, 250), &mut chance, &mut tally);

    let Tally { whole, refused, earlier, left_out, saved, in_refused } = tally;
    assert!(refused > 0, "no damage was noticed");
    assert!(earlier > 0, "nothing stood as it stood earlier");
    Report {
        test: "damage",
        promise: "A damaged database is served completely or not at all",
        disturbances: format!("{} damages to its files, {earlier} of them stale stretches", whole + refused),
        losses: format!("0 of {} starts served less than everything", whole + refused),
        details: format!("{whole} starts served everything, {refused} said what is wrong and ended; `plantd export --data` saved {saved} of {in_refused} \
             plants from those; {left_out} damages to the last journal record after a kill are left out"),
    }
    .print();
}

/// sled reads pages on demand, and may panic on damaged ones.
#[test]
fn damage_under_a_running_server_becomes_errors_and_never_another_answer() {
    // Each of the 256 shards of sled's cache keeps one page, however large. These plants take many more pages.
    const PLANTS: i64 = 20_000;
    let mut server = TestServer::start_with(Launch::new().arguments(["--cache-mb", "1"]));
    let text = "木".repeat(240);
    let plant = |id: i64| NewPlant::new(id, &format!("{text} {id}"), Some("Rosaceae"));
    let plants: Vec<_> = (0..PLANTS).map(plant).collect();
    import(&server.client(), &mut Plants::new(), plants);
    assert_eq!(server.terminate().code(), Some(0));
    server.restart();
    let client = server.client();

    let path = server.data().join(SLED_FILE);
    let length = fs::metadata(&path).expect("a file").len();
    assert!(Damage::Zero(0..length).apply(&path, &[]));
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
