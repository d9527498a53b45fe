//! Backups and archives: what they restore to, and what is refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use plant_domain::{NewPlant, PlantId};
use plant_store::conformance::damage::copy_as_killed;
use plant_store::{
    BackupReader, Event, EventCursor, EventsAfter, IdempotencyDigest, LeftOut, OnConflict,
    OpenError, PlantRepository, PointInTime, Position, Preconditions, RestoreError, Revision,
    SledRepository, StoreError, StoredPlant, Until,
};
use rustix::fs::{CWD, Mode};

use crate::common::{Store, plants_of, restore};

/// Makes one random change to one of few plants.
async fn change(store: &Store, chance: &mut Rng) {
    let repository = store.repository();
    let id = chance.i64(0..40);
    let tag = chance.choice([None, Some("Rosaceae"), Some("木")]).flatten();
    let plant = NewPlant::new(id, format!("Rosa {}", chance.u64(..)), tag.map(str::to_owned));
    let plant = plant.expect("valid");
    let told = match chance.u8(..4) {
        0 => repository.delete(PlantId::from(id), Preconditions::default()).await,
        1 => {
            let digest = IdempotencyDigest::from_bytes([chance.u8(..); IdempotencyDigest::BYTES]);
            repository.create(plant, Some(digest)).await.map(drop)
        }
        _ => repository.put(plant, Preconditions::default()).await.map(drop),
    };
    let is_refused =
        |error: &StoreError| matches!(error, StoreError::NoSuchPlant(_) | StoreError::IdTaken(_));
    assert!(told.as_ref().err().is_none_or(is_refused), "{told:?}");
}

async fn change_often(store: &Store, times: usize, chance: &mut Rng) {
    for _ in 0..times {
        change(store, chance).await;
    }
}

fn until(archive: &Path, until: Until) -> PointInTime {
    let mut replay = PointInTime::newest(archive);
    replay.until = Some(until);
    replay
}

/// A model of a store at one moment of its history.
#[derive(Clone)]
struct Moment {
    event: Event,
    plants: Vec<StoredPlant>,
}

/// Makes random changes, some of them in one group, and records the moment after each.
async fn record(store: &Store, changes: usize, chance: &mut Rng, history: &mut Vec<Moment>) {
    let repository = store.repository();
    for _ in 0..changes {
        let before = repository.newest_event().await.expect("reads");
        let mut plants = plants_of(repository).await;
        if chance.u8(..4) == 0 {
            let first = chance.i64(0..30);
            let rows = (first..first + chance.i64(2..9)).map(|id| {
                NewPlant::new(id, format!("Salix {}", chance.u64(..)), None).expect("valid")
            });
            let rows: Vec<_> = rows.collect();
            repository.import(rows.clone(), OnConflict::Replace, None).await.expect("imports");
            let page = repository.events(EventsAfter::Cursor(before), 100).await.expect("reads");
            assert_eq!(page.events.len(), rows.len());
            for (row, event) in rows.into_iter().zip(page.events) {
                plants.retain(|plant| plant.id != row.id());
                let plant = row.plant().clone();
                plants.push(StoredPlant { id: row.id(), plant, revision: event.revision() });
                plants.sort_unstable_by_key(|plant| plant.id);
                history.push(Moment { event, plants: plants.clone() });
            }
        } else {
            change(store, chance).await;
            let page = repository.events(EventsAfter::Cursor(before), 1).await.expect("reads");
            let plants = plants_of(repository).await;
            if let Some(event) = page.events.first().cloned() {
                history.push(Moment { event, plants });
            }
        }
    }
    let last = history.last().expect("there are changes");
    assert_eq!(last.plants, plants_of(repository).await, "the model is right");
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_of_one_backup_refuse_cursors_of_lost_changes_and_give_out_new_revisions() {
    let (store, mut chance) = (Store::new(), Rng::with_seed(1));
    change_often(&store, 20, &mut chance).await;
    let newest = store.repository().newest_event().await.expect("reads");
    let backup = store.back_up("backup").await;
    assert_eq!(BackupReader::open(&backup).expect("it is whole").position().cursor, newest);
    change_often(&store, 20, &mut chance).await;
    let lost = store.repository().newest_event().await.expect("reads");
    let first_revision = async |name: &str| {
        let restored = restore(&backup, &store.path(name), None);
        for cursor in [newest, lost] {
            let gone = restored.events(EventsAfter::Cursor(cursor), 1).await;
            assert!(matches!(gone, Err(StoreError::EventsGone)), "{gone:?}");
        }
        // The upper half of a cursor's `log` names the log; the lower half is the time.
        let begin = restored.newest_event().await.expect("reads");
        assert_ne!(begin.log >> 32, newest.log >> 32, "the log is the same");
        let plant = NewPlant::new(99, "Quercus", None).expect("valid");
        let revision = restored.create(plant, None).await.expect("the id is free").stored.revision;
        assert!(revision > lost.revision, "a revision of a lost change comes again");
        revision
    };
    let (one, other) = (first_revision("one").await, first_revision("other").await);
    let between = one.get().abs_diff(other.get());
    assert!(between > 1_000_000, "{one} and {other}: some changes later, a revision is in both");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_restores_every_moment_of_a_history_exactly() {
    let (mut store, mut chance) = (Store::new(), Rng::with_seed(2));
    let (mut history, mut backups) = (Vec::new(), Vec::new());
    for part in 0..4 {
        backups.push((history.len(), store.back_up(&format!("backup {part}")).await));
        record(&store, 100, &mut chance, &mut history).await;
        store.close().await;
        store.open();
    }
    store.close().await;
    let to = store.path("restored");
    for _ in 0..40 {
        let moment = chance.usize(..history.len());
        let older: Vec<_> = backups.iter().filter(|(length, _)| *length <= moment).collect();
        let (_, backup) = chance.choice(older).expect("the first one is");
        let wanted = &history[moment];
        let (limit, expected) = if chance.bool() {
            (Until::Cursor(wanted.event.cursor), wanted)
        } else {
            let later = history.iter().position(|it| it.event.at > wanted.event.at);
            (Until::Time(wanted.event.at), &history[later.unwrap_or(history.len()) - 1])
        };
        let restored = restore(backup, &to, Some(&until(store.archive(), limit)));
        assert_eq!(plants_of(&restored).await, expected.plants, "{limit:?}");
        drop(restored);
        fs::remove_dir_all(&to).expect("removes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_that_the_backup_and_the_archive_do_not_have_is_refused() {
    let (mut store, mut chance) = (Store::new(), Rng::with_seed(3));
    let mut history = Vec::new();
    record(&store, 20, &mut chance, &mut history).await;
    let backup = store.back_up("backup").await;
    record(&store, 20, &mut chance, &mut history).await;
    store.close().await;
    let backup = BackupReader::open(&backup).expect("it is whole");
    let last = history.last().expect("there are changes").event.cursor;
    let of = |revision: u64, log| Until::Cursor(EventCursor { revision: revision.into(), log });
    for (limit, words) in [
        (Until::Cursor(history[0].event.cursor), "take an older backup"),
        (Until::Time(history[0].event.at - Duration::from_secs(1)), "take an older backup"),
        (of(last.revision.get(), last.log ^ (1 << 32)), "not of the log"),
        (of(last.revision.get(), last.log ^ 1), "another change"),
        (of(last.revision.get() + 1, last.log), "the archive ends before the change"),
    ] {
        let refused = backup.verify_archive(&until(store.archive(), limit));
        let refused = refused.expect_err("there is no such moment").to_string();
        assert!(refused.contains(words), "{limit:?}: {refused}");
    }
    let elsewhere = store.path("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    let refused = backup.verify_archive(&PointInTime::newest(&elsewhere)).expect_err("it is empty");
    assert!(refused.to_string().contains("has no piece"), "{refused}");
}

/// Damaged variants of a file: with bytes flipped, cut, longer, swapped and repeated.
fn damaged(whole: &[u8], chance: &mut Rng) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    // The beginning and the end have formats of their own.
    let ends = (0..200).chain(whole.len().saturating_sub(120)..whole.len());
    let anywhere = (0..300).map(|_| chance.usize(..whole.len()));
    for place in ends.chain(anywhere.collect::<Vec<_>>()).filter(|place| *place < whole.len()) {
        let mut flipped = whole.to_vec();
        flipped[place] ^= 1 << chance.u8(..8);
        all.push(flipped);
    }
    for _ in 0..60 {
        all.push(whole[..chance.usize(..whole.len())].to_vec());
    }
    all.extend([Vec::new(), [whole, b"x"].concat(), whole.repeat(2)]);
    for _ in 0..60 {
        let length = chance.usize(1..whole.len() / 3);
        let one = chance.usize(..whole.len() - 2 * length);
        let other = chance.usize(one + length..=whole.len() - length);
        let (first, second) = (one..one + length, other..other + length);
        let mut swapped = whole.to_vec();
        swapped[first.clone()].copy_from_slice(&whole[second.clone()]);
        let repeated = swapped.clone();
        swapped[second].copy_from_slice(&whole[first]);
        all.extend([swapped, repeated]);
    }
    all.retain(|bytes| bytes != whole);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_damaged_anywhere_is_refused_and_the_place_is_named() {
    let (store, mut chance) = (Store::new(), Rng::with_seed(4));
    change_often(&store, 300, &mut chance).await;
    let path = store.back_up("backup").await;
    let (whole, name) = (fs::read(&path).expect("reads"), path.display().to_string());
    let mut found_by_verification = 0;
    for bytes in damaged(&whole, &mut chance) {
        fs::write(&path, &bytes).expect("writes");
        let opened = match BackupReader::open(&path) {
            Ok(opened) => opened,
            Err(OpenError::Damaged(refusal)) => {
                assert!(refusal.to_string().contains(&name), "{refusal}");
                continue;
            }
            Err(refusal) => panic!("{refusal}"),
        };
        let found = opened.verify(&|_| ()).expect("the disk works");
        found_by_verification += 1;
        let all = found.disagreements.join("\n");
        assert!(all.contains(&format!("{name}, bytes ")), "the place is missing: {all}");
        // A restore syncs much, so not each is tried.
        if found_by_verification % 8 == 0 {
            let to = store.path("restored");
            let opened = BackupReader::open(&path).expect("its head is whole");
            let refusal = opened.restore(&to, None, &|_| ()).expect_err("it is damaged");
            let RestoreError::Damaged(refusal) = refusal else { panic!("{refusal}") };
            assert!(refusal.to_string().contains(&format!("{name}, bytes ")), "{refusal}");
            assert!(!to.join("manifest").exists());
            drop(fs::remove_dir_all(to));
        }
    }
    assert!(found_by_verification > 100, "{found_by_verification}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_another_backup_is_refused() {
    let store = Store::new();
    let back_up = async |name: &str| {
        let plant = NewPlant::new(1, name, None).expect("valid");
        store.repository().put(plant, Preconditions::default()).await.expect("puts");
        fs::read(store.back_up(name).await).expect("reads")
    };
    let (mut mixed, other) = (back_up("Salix").await, back_up("Populus").await);
    mixed.truncate(end_of(&mixed));
    mixed.extend_from_slice(&other[end_of(&other)..]);
    let path = store.path("mixed");
    fs::write(&path, mixed).expect("writes");
    let open = || BackupReader::open(&path).expect("its head is whole");
    let found = open().verify(&|_| ()).expect("reads");
    let words = "the end is that of another backup";
    assert!(found.disagreements.iter().any(|finding| finding.contains(words)), "{found:?}");
    let refusal = open().restore(&store.path("restored"), None, &|_| ()).expect_err("it is mixed");
    assert!(refusal.to_string().contains(words), "{refusal}");
}

/// Where the last frame of a backup begins.
fn end_of(backup: &[u8]) -> usize {
    const MAGIC_BYTES: usize = 8;
    const HEAD_BYTES: usize = 13;
    let mut frame = MAGIC_BYTES;
    loop {
        let length = backup[frame + 1..].first_chunk().expect("a length");
        let next = frame + HEAD_BYTES + u32::from_le_bytes(*length) as usize;
        if next == backup.len() {
            return frame;
        }
        frame = next;
    }
}

/// Runs a store, and returns the pieces of its archive: one for each of two changes.
async fn two_pieces(store: &mut Store, name: &str) -> Vec<PathBuf> {
    for id in 1..=2 {
        let plant = NewPlant::new(id, name, None).expect("valid");
        store.repository().put(plant, Preconditions::default()).await.expect("puts");
        store.close().await;
        store.open();
    }
    store.close().await;
    pieces_of(store.archive())
}

/// The pieces of an archive that have changes, oldest first: not the one that marks where the archive begins.
fn pieces_of(archive: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(archive).expect("reads");
    let mut pieces: Vec<_> = entries.map(|entry| entry.expect("reads").path()).collect();
    pieces.retain(|path| {
        let name = path.to_string_lossy();
        name.ends_with(".wal") && !name.ends_with("-0000000000000000000.wal")
    });
    pieces.sort_unstable();
    pieces
}

/// A store that is not open, with a copy of the folder as a kill would leave it.
async fn copy_of(store: &Store) -> Store {
    let mut copy = Store::new();
    copy.close().await;
    fs::remove_dir_all(&copy.config.directory).expect("removes");
    copy_as_killed(&store.config.directory, &copy.config.directory);
    copy
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_another_store_and_of_another_history_of_the_same_store_are_refused() {
    let (mut store, mut other) = (Store::new(), Store::new());
    let backup = store.back_up("backup").await;
    let mut fork = copy_of(&store).await;
    fork.open();
    let pieces = two_pieces(&mut store, "Rosa").await;
    let of_other = two_pieces(&mut other, "Rosa").await;
    let of_fork = two_pieces(&mut fork, "Salix").await;
    assert_eq!(pieces[1].file_name(), of_fork[1].file_name());
    let backup = BackupReader::open(&backup).expect("it is whole");
    let all = PointInTime::newest(store.archive());
    backup.verify_archive(&all).expect("it is whole");
    for (foreign, words) in [(&of_other[1], "its name says"), (&of_fork[1], "of another history")] {
        fs::copy(foreign, &pieces[1]).expect("copies");
        let refusal = backup.verify_archive(&all).expect_err("it is foreign");
        let RestoreError::NotWhole { whole_up_to, cause } = refusal else { panic!("{refusal}") };
        assert_eq!(whole_up_to.cursor.revision, Revision::from(1));
        assert!(cause.to_string().contains(words), "{cause}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_archive_says_up_to_which_change_it_is_whole() {
    let (mut store, mut chance) = (Store::new(), Rng::with_seed(5));
    let backup = store.back_up("backup").await;
    let mut history = Vec::new();
    for _ in 0..5 {
        record(&store, 20, &mut chance, &mut history).await;
        // Closing the store ends a piece.
        store.close().await;
        store.open();
    }
    store.close().await;
    let pieces = pieces_of(store.archive());
    assert!(pieces.len() >= 5, "{pieces:?}");
    let reader = BackupReader::open(&backup).expect("it is whole");
    let all = PointInTime::newest(store.archive());
    let last = history.last().expect("there are changes");
    let (whole, left_out) = reader.verify_archive(&all).expect("it is whole");
    assert_eq!(left_out, LeftOut::default());
    assert_eq!(whole, Position { cursor: last.event.cursor, at: last.event.at });

    // The change that a piece must follow.
    let before = |piece: &Path| -> u64 {
        let name = piece.file_name().and_then(|name| name.to_str()).expect("a name");
        let first = name.split('-').nth(1).expect("a number");
        first.parse::<u64>().expect("a number") - 1
    };
    let assert_whole_up_to = |sequence: u64, words: &str| {
        let refusal = reader.verify_archive(&all).expect_err("it is damaged");
        let RestoreError::NotWhole { whole_up_to, cause } = refusal else { panic!("{refusal}") };
        assert_eq!(whole_up_to.cursor.revision, Revision::from(sequence), "{cause}");
        assert!(cause.to_string().contains(words), "{cause}");
        whole_up_to.cursor
    };
    let (second, third) = (&pieces[1], &pieces[2]);
    let bytes = fs::read(second).expect("reads");
    let name = second.display().to_string();
    for damaged in damaged(&bytes, &mut chance) {
        fs::write(second, damaged).expect("writes");
        assert_whole_up_to(before(second), &name);
    }
    // A restore reports the same gap as a verification, and restores up to the position that it names.
    let again = BackupReader::open(&backup).expect("it is whole");
    let refused = again.restore(&store.path("refused"), Some(&all), &|_| ());
    assert!(matches!(refused, Err(RestoreError::NotWhole { .. })), "{refused:?}");
    let cursor = assert_whole_up_to(before(second), &name);
    let offered = until(store.archive(), Until::Cursor(cursor));
    let restored = restore(&backup, &store.path("offered"), Some(&offered));
    let expected = history.iter().find(|it| it.event.cursor == cursor).expect("it was recorded");
    assert_eq!(plants_of(&restored).await, expected.plants);

    fs::remove_file(second).expect("removes");
    assert_whole_up_to(before(second), "lacks the changes");
    // The content of another piece under this name.
    fs::copy(third, second).expect("copies");
    assert_whole_up_to(before(second), &name);
    fs::write(second, &bytes).expect("writes");
    let of_third = fs::read(third).expect("reads");
    fs::write(third, &bytes).expect("writes");
    assert_whole_up_to(before(third), "its changes are not those that its name says");
    fs::write(third, of_third).expect("writes");
    assert_eq!(reader.verify_archive(&all).expect("it is whole again").0, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_made_without_the_archive_are_a_gap() {
    let (mut store, mut chance) = (Store::new(), Rng::with_seed(6));
    let backup = store.back_up("backup").await;
    change_often(&store, 50, &mut chance).await;
    store.close().await;
    let archive = store.config.archive.take();
    store.open();
    // Enough changes to overwrite the write-ahead log.
    change_often(&store, 500, &mut chance).await;
    store.close().await;
    store.config.archive = archive;
    store.open();
    change_often(&store, 50, &mut chance).await;
    let metrics = store.repository().metrics();
    let lost = metrics.iter().find(|it| it.name() == "plantd_archive_lost_changes_total");
    let lost = lost.expect("there is an archive").get_metric()[0].get_counter().get_value();
    store.close().await;
    let refusal = BackupReader::open(&backup)
        .expect("it is whole")
        .verify_archive(&PointInTime::newest(store.archive()))
        .expect_err("there is a gap");
    let RestoreError::NotWhole { cause, .. } = refusal else { panic!("{refusal}") };
    let cause = cause.to_string();
    let (_, gap) = cause.split_once("lacks the changes ").expect("a gap");
    let (first, last) = gap.split_once(" to ").expect("two numbers");
    let number = |text: &str| {
        let digits = text.split(|letter: char| !letter.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse::<u32>().ok()).expect("a number")
    };
    assert_eq!(lost, f64::from(number(last) + 1 - number(first)), "{cause}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_another_history_of_the_store_takes_no_changes_after_any_number_of_changes() {
    // None, fewer than the archive has, as many, and so many more that no group ends where the archive does.
    for changes in [0, 1, 3, 7] {
        let mut store = Store::new();
        store.config.archive_required = true;
        let put = async |store: &Store, ids: std::ops::Range<i64>, name: &str| {
            for id in ids {
                let plant = NewPlant::new(id, name, None).expect("valid");
                store.repository().put(plant, Preconditions::default()).await.expect("puts");
            }
        };
        put(&store, 0..5, "Rosa").await;
        store.close().await;
        let copy = store.path("copy");
        copy_as_killed(&store.config.directory, &copy);
        store.open();
        put(&store, 0..3, "Salix").await;
        store.close().await;
        fs::remove_dir_all(&store.config.directory).expect("removes");
        fs::rename(copy, &store.config.directory).expect("moves");
        let archive = store.config.archive.take();
        store.open();
        put(&store, 0..changes, "Quercus").await;
        store.close().await;
        store.config.archive = archive;
        let before = pieces_of(store.archive());
        store.open();
        assert_not_archived(&store, "the folder is an older copy, or was one").await;
        store.close().await;
        assert_eq!(pieces_of(store.archive()), before);
    }
}

/// Waits until the required archive makes the store unready.
async fn assert_not_archived(store: &Store, words: &str) {
    let begun = Instant::now();
    loop {
        match store.repository().check_ready().await {
            Err(StoreError::NotArchived(refusal)) => {
                assert!(refusal.to_string().contains(words), "{refusal}");
                return;
            }
            _ => assert!(begun.elapsed() < Duration::from_secs(60), "it stays ready"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_copies_of_a_folder_do_not_write_to_one_archive() {
    let (mut store, mut chance) = (Store::new(), Rng::with_seed(12));
    store.config.archive_required = true;
    change_often(&store, 20, &mut chance).await;
    store.close().await;
    let mut copy = copy_of(&store).await;
    store.open();
    copy.config.archive = store.config.archive.clone();
    copy.config.archive_required = true;
    copy.open();
    assert_not_archived(&copy, "another process has it open").await;
    store.repository().check_ready().await.expect("the first one is not disturbed");
    let backup = store.back_up("backup").await;
    let before = pieces_of(store.archive());
    change_often(&copy, 20, &mut chance).await;
    // Closing a store archives what waits.
    copy.close().await;
    assert_eq!(pieces_of(store.archive()), before, "the copy wrote");
    change_often(&store, 20, &mut chance).await;
    let plants = plants_of(store.repository()).await;
    store.close().await;
    assert_ne!(pieces_of(store.archive()), before, "the first one did not write");
    let restored =
        restore(&backup, &store.path("restored"), Some(&PointInTime::newest(store.archive())));
    assert_eq!(plants_of(&restored).await, plants);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_or_a_pipe_in_the_place_of_a_file_of_the_archive_or_of_the_store_is_refused() {
    const REFUSAL: &str = "it is no regular file";
    let mut store = Store::new();
    store.config.archive_required = true;
    let backup = store.back_up("backup").await;
    let pieces = two_pieces(&mut store, "Rosa").await;
    let lock = pieces[0].file_name().and_then(|name| name.to_str()).expect("a name");
    let lock = store.archive().join(format!("{}.lock", &lock[..8]));
    let target = store.path("target");

    fs::remove_file(&lock).expect("removes");
    symlink(&target, &lock).expect("makes a link");
    store.open();
    assert_not_archived(&store, REFUSAL).await;
    assert!(!target.exists(), "a file was made behind the link");
    fs::remove_file(&lock).expect("removes");
    rustix::fs::mkfifoat(CWD, &lock, Mode::RUSR | Mode::WUSR).expect("makes a pipe");
    assert_not_archived(&store, REFUSAL).await;
    fs::remove_file(&lock).expect("removes");
    store.close().await;

    let of_store = ["lock", "manifest", "journal.0", "journal.1"];
    let of_store = of_store.map(|name| store.config.directory.join(name));
    for file in of_store.iter().chain([&pieces[1]]) {
        fs::rename(file, &target).expect("moves");
        symlink(&target, file).expect("makes a link");
        let refusal = if *file == pieces[1] {
            let backup = BackupReader::open(&backup).expect("it is whole");
            let newest = PointInTime::newest(store.archive());
            backup.verify_archive(&newest).expect_err("a link").to_string()
        } else {
            SledRepository::open(&store.config).expect_err("a link").to_string()
        };
        assert!(refusal.contains(REFUSAL), "{}: {refusal}", file.display());
        fs::rename(&target, file).expect("moves");
    }
    store.open();
    assert_eq!(plants_of(store.repository()).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_without_later_changes_is_whole_with_an_archive_that_begins_there() {
    let mut store = Store::new();
    let empty = store.back_up("empty").await;
    store.close().await;
    let verified = |backup: &Path, archive: &Path| {
        BackupReader::open(backup)
            .expect("it is whole")
            .verify_archive(&PointInTime::newest(archive))
    };
    verified(&empty, store.archive()).expect("nothing happened since");
    store.open();
    change(&store, &mut Rng::with_seed(13)).await;
    let later = store.back_up("later").await;
    store.close().await;
    drop(restore(&later, &store.path("restored"), None));
    store.config.directory = store.path("restored");
    store.open();
    let of_restored = store.back_up("of restored").await;
    store.close().await;
    verified(&of_restored, store.archive()).expect("nothing happened since");
    // An archive that begins after the backup must not pass as whole.
    store.open();
    // Enough changes to overwrite the write-ahead log.
    change_often(&store, 500, &mut Rng::with_seed(14)).await;
    store.close().await;
    store.config.archive = Some(store.path("later archive"));
    store.open();
    store.close().await;
    let behind = verified(&of_restored, store.archive());
    assert!(matches!(behind, Err(RestoreError::NotWhole { .. })), "{behind:?}");
}
