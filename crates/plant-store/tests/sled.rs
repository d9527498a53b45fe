//! The sled repository: the contract, crashes, and damage.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use plant_store::conformance::damage::{self, PlantRecords, block_of, edit_plants, plants_in};
use plant_store::conformance::model::KeptEvents;
use plant_store::conformance::{self, StoreUnderTest, model};
use plant_store::{
    OnConflict, OpenError, PlantRepository, Preconditions, SledConfig, SledInspection,
    SledRepository,
};
use proptest::prelude::ProptestConfig;
use proptest::proptest;
use proptest::sample::select;
use tempfile::TempDir;

/// How many events the model test keeps: few, so that many are forgotten.
const FEW_EVENTS: usize = 16;

struct Folder {
    folder: TempDir,
    config: SledConfig,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = SledConfig::new(folder.path().join("plants"));
        Self { folder, config }
    }

    /// A database in which rare things happen often.
    fn with_small_limits(changes_in_memory: usize) -> Self {
        let mut folder = Self::new();
        folder.config.cache_mib = 1;
        folder.config.keep_events = FEW_EVENTS as u64;
        folder.config.changes_in_memory = changes_in_memory;
        folder
    }

    fn directory(&self) -> &Path {
        &self.config.directory
    }

    fn try_open(&self) -> Result<SledRepository, OpenError> {
        SledRepository::open(&self.config)
    }

    fn inspect(&self) -> SledInspection {
        SledInspection::open(&self.config).expect("opens to inspect")
    }

    fn disagreements(&self) -> Vec<String> {
        self.inspect().verify().expect("the disk works").disagreements
    }

    /// Checks that an open is refused with these words.
    #[track_caller]
    fn assert_refused(&self, words: &str) {
        let refusal = self.try_open().map(drop).expect_err("it must not open").to_string();
        assert!(refusal.contains(words), "{refusal}");
    }

    #[track_caller]
    fn assert_sound(&self) {
        assert_eq!(self.disagreements(), Vec::<String>::new());
    }
}

#[async_trait]
impl StoreUnderTest for Folder {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        Arc::new(self.try_open().expect("opens"))
    }

    async fn kill(&self, repository: Arc<dyn PlantRepository>) {
        let copy = killed_copy(self);
        repository.close().await.expect("closes");
        drop(repository);
        fs::remove_dir_all(self.directory()).expect("removes");
        copy_directory(copy.directory(), self.directory());
    }

    async fn verify(&self) {
        self.assert_sound();
    }
}

fn new_plant(id: i64) -> NewPlant {
    let tag = Some(format!("tag {}", id % 7));
    NewPlant::new(id, format!("plant {id}"), tag).expect("valid")
}

/// [`new_plant`] with another name.
fn renamed_plant(id: i64) -> NewPlant {
    let tag = new_plant(id).plant().tag().map(str::to_owned);
    NewPlant::new(id, format!("renamed {id}"), tag).expect("valid")
}

async fn create(repository: &SledRepository, ids: std::ops::Range<i64>) {
    for id in ids {
        repository.create(new_plant(id), None).await.expect("the id is free");
    }
}

async fn assert_readable(repository: &SledRepository, ids: std::ops::Range<i64>) {
    for id in ids {
        let found = repository.get(PlantId::from(id)).await.expect("reads");
        assert_eq!(found.expect("it was created").into_new_plant(), new_plant(id));
    }
}

/// A copy of the folder as a kill would leave it now, without what sled still holds in memory.
fn killed_copy(folder: &Folder) -> Folder {
    let database = folder.directory().join("sled/db");
    let written = || fs::metadata(&database).and_then(|file| file.modified()).expect("a file");
    loop {
        let (before, copy) = (written(), Folder::new());
        copy_directory(folder.directory(), copy.directory());
        // sled also writes in the background; then this is no copy of one moment.
        if written() == before {
            return copy;
        }
    }
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copies");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sled_repository_keeps_the_contract() {
    conformance::check(async || Folder::new()).await;
}

#[test]
fn the_sled_repository_is_as_the_model() {
    const OPERATIONS: usize = 40;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // PROPTEST_CASES in the environment overrides the number of cases.
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    // Fewer and more than the kept events, so that memory has events that are not shown.
    let changes_in_memory = select(vec![1, 3, 3 * FEW_EVENTS]);
    proptest!(config, |(operations in model::operations(OPERATIONS), changes in changes_in_memory)| {
        let folder = Folder::with_small_limits(changes);
        runtime.block_on(model::check(&folder, &operations, KeptEvents::Exactly(FEW_EVENTS)));
    });
}

#[tokio::test]
async fn a_database_of_another_format_is_refused() {
    let folder = Folder::new();
    drop(folder.try_open().expect("opens"));
    edit(&folder, |db| {
        db.insert(b"mformat", &99_u32.to_be_bytes()).expect("writes");
    });
    folder.assert_refused("format 99");
}

/// 600 plants in large groups, and one in its own group.
async fn folder_with_many_events() -> Folder {
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    let plants = (0..600).map(new_plant).collect();
    repository.import(plants, OnConflict::Error).await.expect("imports");
    create(&repository, 600..601).await;
    drop(repository);
    forget_log(&folder);
    folder
}

/// Entries of sled.
type SledEntries = Vec<(sled::IVec, sled::IVec)>;

fn entries(folder: &Folder, prefix: &[u8]) -> SledEntries {
    let mut entries = Vec::new();
    edit(folder, |db| {
        entries = db.scan_prefix(prefix).map(|entry| entry.expect("reads")).collect();
    });
    entries
}

#[tokio::test]
async fn a_plant_in_the_place_of_another_one_is_refused() {
    let folder = Folder::new();
    create(&folder.try_open().expect("opens"), 0..10).await;
    edit(&folder, |db| {
        edit_plants(db, |plants| {
            let record = plants.remove(&3).expect("a plant");
            plants.insert(300, record);
        });
    });
    forget_log(&folder);
    folder.assert_refused("not as they were");
}

/// The segments of the write-ahead log, in the folder of a database.
const SEGMENTS: [&str; 2] = ["journal.0", "journal.1"];

/// Replaces the write-ahead log of one database by that of another.
fn copy_log(from: &Folder, to: &Folder) {
    for segment in SEGMENTS {
        let [from, to] = [from, to].map(|folder| folder.directory().join(segment));
        fs::copy(from, to).expect("copies");
    }
}

/// Removes all but the newest record of the write-ahead log, so that a replay brings back nothing older.
fn forget_log(folder: &Folder) {
    damage::forget_log(folder.directory());
}

/// Changes the database behind the repository's back.
fn edit(folder: &Folder, change: impl FnOnce(&sled::Db)) {
    damage::edit(folder.directory(), change);
}

#[tokio::test]
async fn groups_that_sled_has_lost_come_back_from_the_write_ahead_log() {
    let folder = Folder::new();
    create(&folder.try_open().expect("opens"), 0..5).await;
    let older = entries(&folder, b"");
    create(&folder.try_open().expect("opens"), 5..10).await;
    let newer = entries(&folder, b"");
    // A kill in the middle of a compaction leaves the first of its writes.
    for half_compacted in [None, Some(plants_in(&newer)[&5].clone())] {
        edit(&folder, |db| {
            db.clear().expect("clears");
            for (key, value) in &older {
                db.insert(key, value).expect("writes");
            }
            if let Some(record) = half_compacted {
                edit_plants(db, |plants| drop(plants.insert(5, record)));
            }
        });
        assert_readable(&folder.try_open().expect("opens"), 0..10).await;
        folder.assert_sound();
    }
    create(&folder.try_open().expect("opens"), 10..11).await;
}

#[tokio::test]
async fn a_log_record_that_is_damaged_before_others_is_refused() {
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    create(&repository, 0..10).await;
    let folder = killed_copy(&folder);
    let path = folder.directory().join(SEGMENTS[0]);
    let mut segment = fs::read(&path).expect("reads");
    let name = segment.windows(7).position(|bytes| bytes == b"plant 5").expect("its name");
    segment[name] ^= 1;
    fs::write(&path, &segment).expect("writes");
    folder.assert_refused("are lost from the write-ahead log");
}

#[tokio::test]
async fn a_database_that_is_missing_beside_its_write_ahead_log_is_not_made_anew() {
    let folder = Folder::new();
    create(&folder.try_open().expect("opens"), 0..10).await;
    let (sled, elsewhere) =
        (folder.directory().join("sled"), folder.folder.path().join("elsewhere"));
    fs::rename(&sled, &elsewhere).expect("renames");
    folder.assert_refused("is missing");
    fs::rename(&elsewhere, &sled).expect("renames");
    assert_readable(&folder.try_open().expect("opens"), 0..10).await;
}

/// A power cut may leave sled with the newest writes and without older ones.
#[tokio::test]
async fn plants_that_sled_has_lost_below_its_manifest_come_back_from_the_write_ahead_log() {
    let folder = Folder::new();
    create(&folder.try_open().expect("opens"), 0..10).await;
    edit(&folder, |db| {
        edit_plants(db, |plants| plants.retain(|id, _| *id >= 8));
        db.remove(key_of_events(1)).expect("removes").expect("events");
        db.remove([&b"ttag 3\0"[..], &[0; 8]].concat()).expect("removes").expect("a block");
    });
    assert_readable(&folder.try_open().expect("opens"), 0..10).await;
    folder.assert_sound();
}

/// Also when the write-ahead log goes back further than sled.
#[tokio::test]
async fn the_tag_index_is_right_after_an_open_with_any_write_ahead_log() {
    const PLANTS: usize = 5_000;
    const ROUNDS: usize = 4;
    let mut folder = Folder::new();
    folder.config.changes_in_memory = 5_000;
    // A fixed pseudo-random order in which plants change their tags repeatedly.
    let mut number = 7_usize;
    let mut row = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (id, tag) = ((number >> 40) % PLANTS, (number >> 20) % 4);
        let tag = ["木", "木木", "Rosa"].get(tag).map(|tag| (*tag).to_owned());
        let id = i64::try_from(id).expect("small");
        NewPlant::new(id, "Rosa", tag).expect("valid")
    };
    for round in 0..ROUNDS {
        for rows in [20_000 + 700 * round, 1, 1] {
            let repository = folder.try_open().expect("opens");
            let rows = (0..rows).map(|_| row()).collect();
            repository.import(rows, OnConflict::Replace).await.expect("imports");
            drop(repository);
            folder.verify().await;
        }
    }
}

/// How many event records there are, shown or not.
fn event_records(folder: &Folder) -> usize {
    let mut records = 0;
    edit(folder, |db| records = db.scan_prefix(b"e").count());
    records
}

/// An inspection opens the database too.
#[tokio::test]
async fn an_open_forgets_no_events() {
    let mut folder = folder_with_many_events().await;
    let before = event_records(&folder);
    folder.config.keep_events = 5;
    drop(folder.try_open().expect("opens"));
    folder.assert_sound();
    assert_eq!(event_records(&folder), before);
    create(&folder.try_open().expect("opens"), 601..602).await;
    assert_eq!(event_records(&folder), 1, "writes forget events");
    folder.assert_sound();
}

#[tokio::test]
async fn a_write_ahead_log_in_an_older_state_is_refused() {
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    create(&repository, 0..5).await;
    let older = killed_copy(&folder);
    create(&repository, 5..10).await;
    drop(repository);
    copy_log(&older, &folder);
    folder.assert_refused("are missing in the write-ahead log");
}

#[tokio::test]
async fn the_write_ahead_log_of_another_database_is_refused_and_not_replayed() {
    let (folder, other) = (Folder::new(), Folder::new());
    create(&folder.try_open().expect("opens"), 0..5).await;
    create(&other.try_open().expect("opens"), 0..9).await;
    let own = killed_copy(&folder);
    copy_log(&other, &folder);
    folder.assert_refused("belong to another database");
    assert!(!folder.disagreements().is_empty());
    copy_log(&own, &folder);
    // Behind the salt of this log, the records of another one count as none.
    for segment in SEGMENTS {
        let [own, other] = [&folder, &other].map(|folder| folder.directory().join(segment));
        let [salted, records] = [&own, &other].map(|path| fs::read(path).expect("reads"));
        fs::write(own, [&salted[..8], &records[8..]].concat()).expect("writes");
    }
    folder.assert_refused("are missing in the write-ahead log");
    copy_log(&own, &folder);
    assert_readable(&folder.try_open().expect("opens"), 0..5).await;
    folder.assert_sound();
}

#[tokio::test]
async fn a_segment_that_is_cut_is_refused() {
    let folder = Folder::new();
    drop(folder.try_open().expect("opens"));
    let path = folder.directory().join(SEGMENTS[1]);
    fs::File::options().write(true).open(path).expect("opens").set_len(100).expect("cuts");
    folder.assert_refused("is cut");
}

/// More groups than both segments of the write-ahead log have room for.
#[tokio::test(flavor = "multi_thread")]
async fn plants_outlive_many_switches_between_the_segments() {
    const CLIENTS: i64 = 8;
    const PLANTS_OF_EACH: i64 = 1_600;
    let folder = Folder::new();
    let repository = Arc::new(folder.try_open().expect("opens"));
    let long = "木".repeat(255);
    let long_plant = |id| NewPlant::new(id, long.clone(), Some(long.clone())).expect("valid");
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let repository = Arc::clone(&repository);
        let plants: Vec<NewPlant> =
            (0..PLANTS_OF_EACH).map(|number| long_plant(number * CLIENTS + client)).collect();
        clients.spawn(async move {
            for plant in plants {
                repository.create(plant, None).await.expect("the id is free");
            }
        });
    }
    clients.join_all().await;
    let repository = killed_copy(&folder).try_open().expect("opens after a kill");
    for id in 0..CLIENTS * PLANTS_OF_EACH {
        let found = repository.get(PlantId::from(id)).await.expect("reads");
        assert_eq!(found.expect("it was created").into_new_plant(), long_plant(id));
    }
}

/// sled moves pages that are too large for its log to files of their own, and never syncs those.
#[tokio::test(flavor = "multi_thread")]
async fn sled_keeps_nothing_outside_of_the_file_that_is_synced() {
    const PLANTS: i64 = 10_000;
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    let plants = |tag: Option<&str>| {
        let new_plant = |id| NewPlant::new(id, "木".repeat(255), tag.map(str::to_owned));
        (0..PLANTS).map(|id| new_plant(id).expect("valid")).collect()
    };
    // The largest records of every kind.
    for tag in [None, Some("木".repeat(255)), Some("葉".repeat(255)), Some("t".to_owned())] {
        let plants = plants(tag.as_deref());
        repository.import(plants, OnConflict::Replace).await.expect("imports");
    }
    let blobs = fs::read_dir(folder.directory().join("sled/blobs")).expect("a folder");
    assert_eq!(blobs.count(), 0);
}

/// A database with everything that a verification compares.
async fn folder_to_verify() -> Folder {
    let mut folder = Folder::new();
    folder.config.changes_in_memory = 40;
    let repository = folder.try_open().expect("opens");
    create(&repository, 0..100).await;
    repository.put(renamed_plant(3), Preconditions::default()).await.expect("changes");
    repository.delete(PlantId::from(4), Preconditions::default()).await.expect("deletes");
    drop(repository);
    // So that the log has this plant alone.
    create(&folder.try_open().expect("opens"), 105..106).await;
    forget_log(&folder);
    folder
}

/// Changes what sled holds, checks that a verification lists exactly `expected` and that an open is refused with these
/// words (`None`: is not refused), and undoes the change, after which nothing is wrong.
#[track_caller]
fn check_damage(
    folder: &Folder,
    change: impl FnOnce(&sled::Db),
    expected: &[&str],
    refusal: Option<&str>,
) {
    let before = entries(folder, b"");
    edit(folder, change);
    let found = folder.disagreements();
    let is_same = found.len() == expected.len()
        && expected.iter().all(|words| found.iter().any(|found| found.contains(words)));
    assert!(is_same, "{found:#?} is not {expected:#?}");
    match refusal {
        Some(words) => folder.assert_refused(words),
        None => drop(folder.try_open().expect("opens")),
    }
    edit(folder, |db| {
        db.clear().expect("clears");
        for (key, value) in before {
            db.insert(key, value).expect("writes");
        }
    });
    folder.assert_sound();
}

/// The key of the record that begins with this event.
fn key_of_events(sequence: u64) -> Vec<u8> {
    [b"e", sequence.to_be_bytes().as_slice()].concat()
}

const OTHER_PLANTS: &str = "the plants do not match their digest";

#[tokio::test]
async fn a_plant_in_an_older_state_is_found_and_refused() {
    let folder = Folder::new();
    create(&folder.try_open().expect("opens"), 0..10).await;
    let older = entries(&folder, b"p");
    let repository = folder.try_open().expect("opens");
    repository.put(renamed_plant(3), Preconditions::default()).await.expect("changes");
    create(&repository, 10..11).await;
    drop(repository);
    forget_log(&folder);
    let record = plants_in(&older)[&3].clone();
    let fall_back = |db: &sled::Db| {
        edit_plants(db, |plants| {
            let newer = plants.insert(3, record.clone());
            assert_ne!(newer, Some(record));
        });
    };
    let expected = ["plant 3 has the revision 4, and event 11 is its last one", OTHER_PLANTS];
    check_damage(&folder, fall_back, &expected, Some("not as they were"));
}

#[tokio::test]
async fn a_plant_that_was_never_created_or_was_deleted_is_found_and_refused() {
    let folder = folder_to_verify().await;
    for (id, record_of, event) in [
        (700, 7, "plant 700 has the revision 8, and that event is missing"),
        (4, 11, "plant 4 is there, and event 102 removed it"),
    ] {
        let insert = |db: &sled::Db| {
            edit_plants(db, |plants| drop(plants.insert(id, plants[&record_of].clone())));
        };
        let tag = record_of % 7;
        let index = format!("plant {id} has the tag \"tag {tag}\" and is missing in its index");
        let count = "there are 101 plants, and the count says 100";
        check_damage(
            &folder,
            insert,
            &[event, &index, count, OTHER_PLANTS],
            Some("there are 101 plants"),
        );
    }
}

#[tokio::test]
async fn a_record_that_is_damaged_or_breaks_a_rule_is_found_and_refused() {
    let folder = folder_to_verify().await;
    let mut with_a_line_end = plants_in(&entries(&folder, b"p"))[&7].clone();
    let name = with_a_line_end.windows(7).position(|bytes| bytes == b"plant 7");
    with_a_line_end[name.expect("its name")] = b'\n';
    for (record, refusal) in
        [(vec![1], "record of plant 7 is damaged"), (with_a_line_end, "not as they were")]
    {
        let damage = |db: &sled::Db| edit_plants(db, |plants| drop(plants.insert(7, record)));
        let expected = ["the record of plant 7 is damaged", OTHER_PLANTS];
        check_damage(&folder, damage, &expected, Some(refusal));
    }
}

#[tokio::test]
async fn blocks_that_overlap_are_found_and_refused() {
    let overlap = |db: &sled::Db| {
        let (_, value) = db.scan_prefix(b"p").next().expect("a block").expect("reads");
        // An entry of the first block, in a second block as well.
        let plants = plants_in(&[(vec![b'p', 0, 0, 0, 0, 0, 0, 0, 0].into(), value)]);
        let (id, record) = plants.last_key_value().expect("plants");
        let first = (id.cast_unsigned() ^ (1 << 63)).to_be_bytes();
        let entry = postcard::to_extend(&(0_u64, record.len()), vec![1]).expect("small");
        let block = [&entry[..], record].concat();
        db.insert([&b"p"[..], &first].concat(), block).expect("writes");
    };
    let folder = folder_to_verify().await;
    edit(&folder, |db| edit_plants(db, |_| ()));
    folder.assert_sound();
    edit(&folder, overlap);
    let found = folder.disagreements();
    assert!(found.iter().any(|found| found.contains("overlaps the one before")), "{found:?}");
    folder.assert_refused("overlaps the one before");
}

/// A group in the write-ahead log carries the count and the digest before it.
#[tokio::test]
async fn a_wrong_count_or_digest_is_repaired_by_the_replay() {
    for byte in [2, 3] {
        let folder = folder_to_verify().await;
        edit(&folder, |db| {
            let mut state = db.get("mstate").expect("reads").expect("a state").to_vec();
            state[byte] ^= 1;
            db.insert("mstate", state).expect("writes");
        });
        folder.assert_sound();
        assert_eq!(folder.inspect().count(), Some(100));
    }
}

#[tokio::test]
async fn a_manifest_that_is_missing_is_found_and_refused() {
    let folder = folder_to_verify().await;
    let remove = |db: &sled::Db| drop(db.remove("mstate").expect("removes"));
    check_damage(&folder, remove, &["the manifest is missing"], Some("the manifest is missing"));
}

#[tokio::test]
async fn missing_and_surplus_entries_of_the_tag_index_are_found_and_refused() {
    let folder = folder_to_verify().await;
    let key = [&b"ttag 2\0"[..], &[0; 8]].concat();
    // The block is lost, or in the state that it had when there were ten plants.
    let of_ten_plants = block_of(&[(2, Vec::new()), (9, Vec::new())].into());
    for (block, first_missing) in [(None, 0), (Some(of_ten_plants), 10)] {
        let missing: Vec<String> = (first_missing..100)
            .filter(|id| id % 7 == 2)
            .map(|id| format!("plant {id} has the tag \"tag 2\" and is missing in its index"))
            .collect();
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        let lose = |db: &sled::Db| {
            db.remove(&key).expect("removes").expect("a block");
            block.map(|block| db.insert(&key, block).expect("writes"));
        };
        check_damage(&folder, lose, &missing, Some("index of the tags"));
    }

    let insert = |db: &sled::Db| {
        let ids = PlantRecords::from([(5, Vec::new())]);
        db.insert([&b"ttag 9\0"[..], &[0; 8]].concat(), block_of(&ids)).expect("writes");
    };
    let expected = ["plant 5 is in the index of tag \"tag 9\" and does not have that tag"];
    check_damage(&folder, insert, &expected, Some("index of the tags"));
}

#[tokio::test]
async fn events_that_are_missing_are_found_and_refused() {
    let folder = folder_with_many_events().await;
    let remove = |db: &sled::Db| drop(db.remove(key_of_events(257)).expect("removes"));
    let without_events =
        (257..=512).map(|event| format!("plant {} has the revision {event}, and that", event - 1));
    let missing = "the events from 257 to 512 are missing".to_owned();
    let expected: Vec<String> = without_events.chain([missing]).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_damage(&folder, remove, &expected, Some("are missing"));
    for sequence in [1, 513] {
        let folder = folder_with_many_events().await;
        edit(&folder, |db| drop(db.remove(key_of_events(sequence)).expect("removes")));
        folder.assert_refused("are missing");
    }
}

#[tokio::test]
async fn an_event_of_the_wrong_kind_is_found_and_served() {
    let change = |db: &sled::Db| {
        let value = db.get(key_of_events(1)).expect("reads").expect("events");
        let mut events: Vec<(u8, i64)> = postcard::from_bytes(&value[1..]).expect("events");
        assert_eq!(events[19], (0, 19));
        events[19].0 = 1;
        let value = postcard::to_extend(&events, vec![1]).expect("small");
        db.insert(key_of_events(1), value).expect("writes");
    };
    let kind = ["event 20 (Updated) cannot follow the event before it of plant 19"];
    // Nothing acknowledged is lost, so the database opens.
    check_damage(&folder_to_verify().await, change, &kind, None);
}
