//! The files of a database: what is refused, what damage hides, and what is bounded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plant_domain::{NewPlant, PlantFilter, PlantId};
use plant_store::conformance;
use plant_store::conformance::damage::{contents, count_value, edit, plant_key};
use plant_store::write::Write;
use plant_store::{
    BATCH_MAX_WRITES, Batch, BatchError, Checkpoints as _, OnConflict, OpenError, PAGE_MAX_WORK,
    PagePlace, PageRequest, PlantRepository, Preconditions, SledInspection, SledRepository,
    StoreError,
};
use tokio::task::JoinSet;

use crate::folder::{Folder, assert_readable, create, new_plant};

/// [`new_plant`] with another name.
fn renamed_plant(id: i64) -> NewPlant {
    let tag = new_plant(id).plant().tag().map(str::to_owned);
    NewPlant::new(id, format!("renamed {id}"), tag).expect("valid")
}

#[tokio::test]
async fn a_batch_of_too_many_writes_is_refused_and_the_store_goes_on() {
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    let creates = (0..).take(BATCH_MAX_WRITES + 100).map(|id| Write::Create(new_plant(id), None));
    let batch = Batch { writes: creates.collect(), by: None, idempotency: None };
    let refused = tokio::time::timeout(Duration::from_secs(60), repository.batch(batch)).await;
    let refused = refused.expect("it is refused at once");
    let is_refused = matches!(refused, Err(BatchError::Store(StoreError::Refused(_))));
    assert!(is_refused, "{refused:?}");
    create(&repository, 0..1).await;
    assert_eq!(repository.count(None).await.expect("counts"), 1);
}

/// Neither a server nor an inspection opens it.
#[tokio::test]
async fn a_database_of_an_older_version_is_refused_and_not_called_damaged() {
    let folder = Folder::new();
    let assert_refused = |format: &str| {
        let inspected = SledInspection::open(&folder.config).map(drop);
        for opened in [folder.try_open().map(drop), inspected] {
            let Err(OpenError::Unusable(cause)) = opened else { panic!("{opened:?}") };
            let cause = cause.to_string();
            let says = format!("has {format}, and this version of the program reads");
            assert!(cause.contains(&says) && cause.contains("export the plants"), "{cause}");
        }
    };
    fs::create_dir_all(folder.directory().join("sled")).expect("a folder");
    assert_refused("format 4 or less");
    fs::remove_dir(folder.directory().join("sled")).expect("removes");
    fs::write(folder.directory().join("manifest"), b"plmanif1 and more").expect("writes");
    assert_refused("format 7 or less");
}

const SEGMENTS: [&str; 2] = ["journal.0", "journal.1"];

/// Changes a folder, given one of an earlier moment and one of another database.
type Harm = fn(&Path, &Path, &Path);

fn take(names: &[&str], from: &Path, to: &Path) {
    for name in names {
        fs::copy(from.join(name), to.join(name)).expect("copies");
    }
}

/// All files by their names, except the lock.
fn files_in(folder: &Folder) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut open) = (BTreeMap::new(), vec![folder.directory().to_owned()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).expect("reads");
            open.extend(entries.map(|entry| entry.expect("reads").path()));
        } else if !path.ends_with("lock") {
            let name = path.strip_prefix(folder.directory()).expect("within").to_owned();
            files.insert(name, fs::read(path).expect("reads"));
        }
    }
    files
}

/// The files of the tables by their names.
fn sealed_files(folder: &Folder) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = files_in(folder);
    files.retain(|name, _| name.starts_with("tables"));
    files
}

#[tokio::test]
async fn a_folder_with_missing_older_or_foreign_files_is_refused_and_left_as_it_is() {
    let rows: [(&str, Harm); 7] = [
        ("manifest", |folder, _, _| fs::remove_file(folder.join("manifest")).expect("removes")),
        ("000000000001", |folder, _, _| {
            fs::remove_dir_all(folder.join("tables/000000000001")).expect("removes");
        }),
        ("lost from the write-ahead log", |folder, older, _| take(&["manifest"], older, folder)),
        ("are missing in the write-ahead log", |folder, older, _| take(&SEGMENTS, older, folder)),
        ("does not belong to the manifest", |folder, _, other| take(&SEGMENTS, other, folder)),
        // With the salt of this log, no record of another log counts.
        ("are missing in the write-ahead log", |folder, _, other| {
            for segment in SEGMENTS {
                let [own, other] = [folder, other].map(|folder| folder.join(segment));
                let [salted, records] = [&own, &other].map(|path| fs::read(path).expect("reads"));
                fs::write(own, [&salted[..8], &records[8..]].concat()).expect("writes");
            }
        }),
        ("is cut", |folder, _, _| {
            let segment = fs::File::options().write(true).open(folder.join(SEGMENTS[1]));
            segment.and_then(|segment| segment.set_len(100)).expect("cuts");
        }),
    ];
    let (mut folder, other) = (Folder::new(), Folder::new());
    folder.config.changes_in_memory = 10;
    drop(folder.try_open().expect("opens"));
    let older = folder.killed();
    create(&folder.try_open().expect("opens"), 0..35).await;
    create(&other.try_open().expect("opens"), 0..9).await;
    for (words, harm) in rows {
        let harmed = folder.killed();
        harm(harmed.directory(), older.directory(), other.directory());
        let left = files_in(&harmed);
        // An open removes no table that the manifest does not name, for example.
        for _ in 0..2 {
            assert!(!harmed.disagreements().is_empty(), "{words}");
            harmed.assert_refused(words);
        }
        assert!(files_in(&harmed) == left, "{words}: a file has changed");
    }
    folder.assert_sound();
    assert_readable(&folder.try_open().expect("opens"), 0..35).await;
}

/// A kill may come at each step of a flush or a merge.
#[tokio::test]
async fn what_an_unfinished_flush_or_merge_leaves_is_removed_by_the_next_open() {
    let folder = Folder::new();
    create(&folder.try_open().expect("opens"), 0..10).await;
    let leftovers = ["000000000002", "000000000099.new", "000000000003.removed"]
        .map(|it| format!("tables/{it}"));
    for table in &leftovers {
        let table = folder.directory().join(table);
        fs::create_dir(&table).expect("a folder");
        fs::write(table.join("db"), "half of a table").expect("writes");
    }
    fs::write(folder.directory().join("manifest.new"), "half of a manifest").expect("writes");
    folder.assert_sound();
    let repository = folder.try_open().expect("opens");
    assert!(leftovers.iter().all(|file| !folder.directory().join(file).exists()));
    create(&repository, 10..20).await;
    drop(repository);
    assert_readable(&folder.try_open().expect("opens"), 0..20).await;
}

#[tokio::test]
async fn damage_to_a_table_or_the_manifest_is_refused_and_hides_only_the_plants_of_its_page() {
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    let plants = (0..3_000).map(new_plant).collect();
    repository.import(plants, OnConflict::Error, None).await.expect("imports");
    drop(repository);
    let mut files: Vec<_> = sealed_files(&folder).into_keys().collect();
    assert_eq!(files.len(), 3, "{files:?}: the settings of sled, its log, and its snapshot");
    files.push("manifest".into());
    for path in files.iter().map(|file| folder.directory().join(file)) {
        let whole = fs::read(&path).expect("reads");
        let name = b"plant 1500";
        // sled's log has the block with this plant more than once; the newest copy counts.
        let names = (0..whole.len()).filter(|place| whole[*place..].starts_with(name));
        let names: Vec<usize> = names.collect();
        let anywhere = (0..whole.len()).step_by(whole.len().div_ceil(20)).map(|place| vec![place]);
        for places in anywhere.chain([names.clone()]).filter(|places| !places.is_empty()) {
            let mut damaged = whole.clone();
            places.iter().for_each(|place| damaged[*place] ^= 0x10);
            fs::write(&path, damaged).expect("writes");
            folder.assert_refused("damaged");
            assert!(!folder.disagreements().is_empty(), "{places:?} of {}", path.display());
            let saved = folder.readable();
            assert!(saved.iter().all(|plant| *plant == new_plant(plant.id().get())));
            let is_page = places == names;
            assert!(!is_page || (2_600..3_000).contains(&saved.len()), "{}", saved.len());
        }
        fs::write(&path, whole).expect("writes");
        folder.assert_sound();
    }
}

#[tokio::test]
async fn no_open_read_or_kill_changes_a_byte_of_a_sealed_table() {
    let mut folder = Folder::new();
    folder.config.changes_in_memory = 1_000;
    let repository = folder.try_open().expect("opens");
    let plants = (0..3_000).map(new_plant).collect();
    repository.import(plants, OnConflict::Error, None).await.expect("imports");
    drop(repository);
    let sealed = sealed_files(&folder);
    assert!(sealed.len() >= 3, "{:?}", sealed.keys());
    for _ in 0..3 {
        let repository = folder.try_open().expect("opens");
        assert_readable(&repository, 0..3_000).await;
        let killed = folder.killed();
        assert!(sealed_files(&killed) == sealed, "a kill leaves other bytes");
        assert_readable(&killed.try_open().expect("opens"), 0..3_000).await;
        drop(repository);
        folder.assert_sound();
        assert!(sealed_files(&folder) == sealed, "the bytes of a sealed table have changed");
    }
}

#[tokio::test]
async fn plants_that_only_the_write_ahead_log_has_are_readable_without_the_manifest() {
    let mut folder = Folder::new();
    folder.config.changes_in_memory = 10;
    let repository = folder.try_open().expect("opens");
    create(&repository, 0..25).await;
    repository.delete(PlantId::from(3), Preconditions::default()).await.expect("removes");
    let folder = folder.killed();
    fs::write(folder.directory().join("manifest"), "no manifest").expect("writes");
    let saved: Vec<_> = folder.inspect().plants().map(|plant| plant.expect("readable")).collect();
    assert_eq!(saved, (0..25).filter(|id| *id != 3).map(new_plant).collect::<Vec<_>>());
}

#[tokio::test]
async fn damage_to_the_write_ahead_log_hides_only_the_changes_that_it_hits() {
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    create(&repository, 0..10).await;
    let folder = folder.killed();
    let all: Vec<_> = (0..10).map(new_plant).collect();
    let [first, second] = SEGMENTS.map(|segment| folder.directory().join(segment));
    let whole = fs::read(&first).expect("reads");
    let name = whole.windows(7).position(|bytes| bytes == b"plant 5").expect("its name");
    let others: Vec<_> = all.iter().filter(|plant| plant.id().get() != 5).cloned().collect();
    for (place, expected) in [(0, &all), (name, &others)] {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        fs::write(&first, damaged).expect("writes");
        assert_eq!(folder.readable(), *expected, "byte {place}");
        assert!(!folder.disagreements().is_empty());
    }
    folder.assert_refused("are lost from the write-ahead log");
    fs::write(&first, &whole).expect("writes");
    fs::remove_file(second).expect("removes");
    assert_eq!(folder.readable(), all);
    fs::remove_file(folder.directory().join("manifest")).expect("removes");
    assert_eq!(folder.readable(), all);
    let mut without_salt = whole.clone();
    without_salt[0] ^= 1;
    for segment in [whole, without_salt] {
        fs::write(&first, &segment).expect("writes");
        folder.assert_refused("the manifest is missing");
        assert_eq!(fs::read(&first).expect("reads"), segment);
    }
}

#[tokio::test]
async fn a_page_over_deleted_plants_ends_after_bounded_work() {
    const DELETED: i64 = 110_000;
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    let plants = (-1..=DELETED).map(new_plant).collect();
    repository.import(plants, OnConflict::Error, None).await.expect("imports");
    for ids in (0..DELETED).collect::<Vec<_>>().chunks(BATCH_MAX_WRITES) {
        let delete = |id: &i64| Write::Delete(PlantId::from(*id), Preconditions::default());
        let writes = ids.iter().map(delete).collect();
        let batch = Batch { writes, by: None, idempotency: None };
        repository.batch(batch).await.expect("deletes");
    }
    drop(repository);
    let repository = folder.try_open().expect("opens");
    let pages_until_a_plant = async |begin: PagePlace, further: fn(PlantId) -> PagePlace| {
        let mut request = PageRequest { filter: PlantFilter::default(), place: begin, limit: 1 };
        for pages in 1.. {
            let page = repository.list(request.clone()).await.expect("reads");
            if !page.is_empty() {
                return pages;
            }
            request.place = further(page.next.expect("more plants"));
        }
        unreachable!("there is a plant");
    };
    let forward = pages_until_a_plant(PagePlace::After((-1).into()), PagePlace::After).await;
    assert_eq!(forward, 1 + DELETED / i64::try_from(PAGE_MAX_WORK).expect("small"));
    // Backward, a page may end earlier, but the work for it has the same bound.
    let backward = pages_until_a_plant(PagePlace::Before(DELETED.into()), PagePlace::Before).await;
    assert!((forward..4 * forward).contains(&backward), "{backward} pages");
}

#[tokio::test]
async fn batches_beyond_those_that_may_wait_are_refused_and_change_nothing() {
    const BATCHES: i64 = 200;
    const WRITES: i64 = 500;
    let repository = Arc::new(Folder::new().try_open().expect("opens"));
    let mut sent = JoinSet::new();
    for first in (0..BATCHES).map(|batch| batch * WRITES) {
        let writes = (first..first + WRITES).map(|id| Write::Create(new_plant(id), None)).collect();
        let (repository, batch) =
            (Arc::clone(&repository), Batch { writes, by: None, idempotency: None });
        sent.spawn(async move { repository.batch(batch).await });
    }
    let outcomes = sent.join_all().await;
    let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!((1..outcomes.len()).contains(&done), "{done} batches were not refused");
    for refused in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, BatchError::Store(StoreError::Busy)), "{refused}");
    }
    let count = repository.count(None).await.expect("counts");
    assert_eq!(count, done as u64 * WRITES.unsigned_abs());
}

#[tokio::test]
async fn an_inspection_changes_nothing() {
    let folder = Folder::new();
    create(&folder.try_open().expect("opens"), 0..10).await;
    let lock = folder.directory().join("lock");
    fs::remove_file(&lock).expect("removes");
    folder.assert_sound();
    assert!(!lock.exists());
}

/// The changed entries have valid checksums.
#[tokio::test]
async fn a_verification_lists_exactly_what_disagrees() {
    const PLANTS: &str = "the plants do not match their digest";
    const NUMBER: &str = "there are 100 plants, and the count says 99";
    const TAGS: &str = "the counts of the tags do not match the plants";
    const RECORD: &str = "the record of plant 7 is damaged";
    const HISTORY: &str = "the versions and deletions of plants do not match the events";
    const INDEX: &str = "the search index of table ";
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    create(&repository, 0..100).await;
    repository.put(renamed_plant(3), Preconditions::default()).await.expect("changes");
    repository.delete(PlantId::from(4), Preconditions::default()).await.expect("deletes");
    drop(repository);
    let whole = contents(folder.directory()).remove(0);
    let record_of_7 = whole.plants[&plant_key(7)].clone().expect("it is there");
    let mut with_a_line_end = record_of_7.clone();
    let name = with_a_line_end.windows(7).position(|bytes| bytes == b"plant 7");
    with_a_line_end[name.expect("its name")] = b'\n';
    let record = |id: i64, record: &[u8]| {
        let mut content = whole.clone();
        content.plants.insert(plant_key(id), Some(record.to_vec()));
        content
    };
    let count = |tag: &str, plants: i64| {
        let mut content = whole.clone();
        content.tags.insert(tag.into(), Some(count_value(plants)));
        content
    };
    let mut without_events = whole.clone();
    for sequence in [20_u64, 21, 102] {
        without_events.events.remove(&sequence.to_be_bytes()[..]);
    }
    let mut without_history = whole.clone();
    // The deletions come after the events and the versions.
    without_history.events.pop_last().expect("a deletion");
    let mut wrong_kind = whole.clone();
    // The byte after the version.
    let event = wrong_kind.events.get_mut(&20_u64.to_be_bytes()[..]).and_then(Option::as_mut);
    event.expect("an event")[1] = 1;
    let mut wrong_index = whole.clone();
    // The last entry of the index is its outline.
    let (_, postings) = wrong_index.search.iter_mut().nth_back(1).expect("postings");
    *postings.as_mut().and_then(|postings| postings.last_mut()).expect("a posting") ^= 1;

    for (changed, expected) in [
        (
            record(3, &record_of_7),
            &["plant 3 has the revision 8, and event 101 is its last one", PLANTS, TAGS, INDEX][..],
        ),
        (
            record(700, &record_of_7),
            &[
                "plant 700 has the revision 8, and that event is missing",
                NUMBER,
                PLANTS,
                TAGS,
                INDEX,
            ],
        ),
        (
            record(4, &record_of_7),
            &["plant 4 is there, and event 102 removed it", NUMBER, PLANTS, TAGS, INDEX],
        ),
        (record(7, &[1]), &[RECORD, PLANTS, TAGS, INDEX]),
        (record(7, &with_a_line_end), &[RECORD, PLANTS, TAGS, INDEX]),
        (count("tag 2", 13), &[TAGS]),
        (count("tag 9", -1), &["the count of the tag \"tag 9\" is -1", TAGS]),
        (
            without_events,
            &[
                "the events from 20 to 21 are missing",
                "plant 4 is missing; event 5 is its last one",
                "plant 19 has the revision 20, and that event is missing",
                "plant 20 has the revision 21, and that event is missing",
                "the events from 102 to 102 are missing",
                HISTORY,
            ],
        ),
        (without_history, &[HISTORY]),
        (wrong_index, &[INDEX]),
        (wrong_kind, &["event 20 (Updated) cannot follow the event before it of plant 19"]),
    ] {
        edit(folder.directory(), |content| *content = changed);
        let found = folder.disagreements();
        let is_expected = |(found, expected): (&String, &&str)| found.contains(expected);
        let agrees = found.len() == expected.len() && found.iter().zip(expected).all(is_expected);
        assert!(agrees, "{found:#?} is not {expected:#?}");
    }
    edit(folder.directory(), |content| *content = whole);
    folder.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_on_disk_when_its_save_returns_however_many_are_saved_at_once() {
    const NAMES: u8 = 16;
    const ROUNDS: u8 = 20;
    let folder = Folder::new();
    conformance::check_checkpoints(async || folder.try_open().expect("opens")).await;
    let repository = Arc::new(folder.try_open().expect("opens"));
    let save = |name: u8| {
        let (repository, directory) = (Arc::clone(&repository), folder.directory().to_owned());
        async move {
            let name = name.to_string();
            assert!(repository.hold(&name).await.expect("reads").is_held);
            for round in 0..=ROUNDS {
                assert!(repository.save(&name, vec![round]).await.expect("saves"));
                let on_disk = SledRepository::read_checkpoints(&directory).expect("reads");
                assert_eq!(on_disk[&name], [round]);
            }
        }
    };
    (0..NAMES).map(save).collect::<JoinSet<_>>().join_all().await;
    let copy = folder.killed();
    let killed = copy.try_open().expect("opens");
    for name in 0..NAMES {
        assert_eq!(killed.hold(&name.to_string()).await.expect("reads").content, [ROUNDS]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_could_not_be_saved_is_not_shown_until_it_is_on_disk() {
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    repository.hold("shop").await.expect("reads");
    let in_the_way = folder.directory().join("checkpoints.new");
    fs::create_dir(&in_the_way).expect("a folder");
    repository.save("shop", vec![1]).await.expect_err("it cannot be written");
    repository.hold("shop").await.expect_err("it is not on disk");
    fs::remove_dir(&in_the_way).expect("removes");
    let shown = repository.hold("shop").await.expect("reads").content;
    let on_disk = SledRepository::read_checkpoints(folder.directory()).expect("reads");
    assert_eq!((shown, &on_disk["shop"]), (vec![1], &vec![1]));
}

#[tokio::test]
async fn a_damaged_file_of_checkpoints_is_refused_by_its_name_and_found_by_a_verification() {
    let folder = Folder::new();
    let repository = folder.try_open().expect("opens");
    repository.hold("shop").await.expect("reads");
    assert!(repository.save("shop", vec![7; 100]).await.expect("saves"));
    drop(repository);
    let file = folder.directory().join("checkpoints");
    let whole = fs::read(&file).expect("reads");
    for place in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        for damaged in [&damaged, &whole[..place]] {
            fs::write(&file, damaged).expect("writes");
            folder.assert_refused(&format!("{} cannot be used", file.display()));
        }
    }
    let [finding] = &folder.disagreements()[..] else { panic!("not one finding") };
    assert!(finding.contains("checkpoints cannot be used"), "{finding}");
    fs::write(&file, whole).expect("writes");
    folder.assert_sound();
    let repository = folder.try_open().expect("opens");
    assert_eq!(repository.hold("shop").await.expect("reads").content, [7; 100]);
}
