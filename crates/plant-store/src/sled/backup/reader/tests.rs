//! Crafted backups, with valid checksums and wrong content.

use std::io::Cursor;
use std::num::Wrapping;

use plant_domain::PlantId;

use super::*;
use crate::RestoreError;
use crate::event::MAX_AT_MS;
use crate::record::PlantRecord;
use crate::sled::backup::sealed;
use crate::sled::commit::change::{Totals, digest};
use crate::sled::keys::{MAX_SEQUENCE, plant_key};
use crate::sled::tables::{BlockBuilder, Entry};

type Block<'a> = (Map, &'a [Entry<'a>]);

/// A backup with valid checksums.
fn open(totals: Totals, blocks: &[Block<'_>]) -> Result<BackupReader, OpenError> {
    let head = Head { event_log: 7, totals }.encode().expect("encodes");
    let encoded = |(map, entries): &Block<'_>| {
        let mut block = BlockBuilder::default();
        for (key, value) in *entries {
            block.add(key, *value).expect("in order");
        }
        (*map as u8, block.take().1)
    };
    let blocks: Vec<_> = blocks.iter().map(encoded).collect();
    let blocks: Vec<_> = blocks.iter().map(|(map, block)| (*map, &block[..])).collect();
    let backup = sealed(&head, &blocks).expect("small blocks");
    BackupReader::new(Cursor::new(backup), "crafted".to_owned())
}

/// Asserts that a verification finds this, and that a restore refuses the backup.
#[track_caller]
fn assert_refused(totals: Totals, blocks: &[Block<'_>], words: &str) {
    let open = || open(totals, blocks).expect("its head is right");
    let found = open().verify(&|_| ()).expect("there is no disk").disagreements.join("\n");
    assert!(found.contains(words), "{words}: {found:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let refusal = open().restore(folder.path(), None, &|_| ()).expect_err(words);
    assert!(matches!(refusal, RestoreError::Damaged(_)), "{refusal}");
    assert!(!folder.path().join("manifest").exists());
}

/// The totals of one plant, and its record.
fn one_plant(record: &[u8], revision: u64) -> Totals {
    let of_plant = digest(PlantId::from(7), record);
    Totals {
        last_sequence: revision,
        plants: 1,
        digest: of_plant,
        stored_from: revision + 1,
        history_from: revision + 1,
        last_at_ms: 0,
    }
}

#[test]
fn a_backup_with_valid_checksums_and_wrong_content_is_detected_and_not_restored() {
    let one = postcard::to_stdvec(&1_i64).expect("encodes");
    let (one, empty) = (Some(&one[..]), Totals::default());
    let (early, late): (&[Entry<'_>], &[Entry<'_>]) = (&[(b"a", one), (b"c", one)], &[(b"b", one)]);
    for blocks in [[early, late], [late, early], [early, early]] {
        assert_refused(empty, &blocks.map(|block| (Map::Tags, block)), "not in order");
    }
    assert_refused(empty, &[(Map::Tags, &[])], "it is empty");
    assert_refused(empty, &[(Map::Tags, &[(b"a", None)])], "removes a key");
    assert_refused(empty, &[(Map::Tags, &[(b"a", one)])], "the counts of the tags");
    let minus_one = postcard::to_stdvec(&-1_i64).expect("encodes");
    assert_refused(empty, &[(Map::Tags, &[(b"a", Some(&minus_one))])], "of the tag \"a\" is -1");
    assert_refused(empty, &[(Map::Search, &[(b"a", one)])], "no known map");

    let key = plant_key(PlantId::from(7));
    let of = |revision: u64, name| {
        let record = PlantRecord::named(name, revision);
        record.encode().expect("encodes")
    };
    for (record, words) in [
        (of(0, "Rosa"), "has no revision"),
        (of(8, "Rosa"), "has the revision 8, and that event is missing"),
        (of(5, ""), "breaks the rules"),
    ] {
        let totals = one_plant(record.bytes(), 7);
        assert_refused(totals, &[(Map::Plants, &[(&key, Some(record.bytes()))])], words);
    }
    let right = of(7, "Rosa");
    let block = [(&key[..], Some(right.bytes()))];
    let lies = Totals { digest: Wrapping(1), ..one_plant(right.bytes(), 7) };
    assert_refused(lies, &[(Map::Plants, &block)], "do not match their digest");
    let lies = Totals { plants: 2, ..one_plant(right.bytes(), 7) };
    assert_refused(lies, &[(Map::Plants, &block)], "there are 1 plants, and the count says 2");
    let after_the_end = (&8_u64.to_be_bytes()[..], Some(&[1, 0, 14, 0][..]));
    let with_event = [(Map::Events, &[after_the_end][..]), (Map::Plants, &block)];
    assert_refused(one_plant(right.bytes(), 7), &with_event, "events after number 7");
    let absurd_time = [&[1, 0, 14][..], &postcard::to_stdvec(&u64::MAX).expect("encodes")].concat();
    let totals = Totals { stored_from: 7, history_from: 7, ..one_plant(right.bytes(), 7) };
    let at = (&7_u64.to_be_bytes()[..], Some(&absurd_time[..]));
    assert_refused(totals, &[(Map::Events, &[at]), (Map::Plants, &block)], "no time");

    let whole = open(one_plant(right.bytes(), 7), &[(Map::Plants, &block)]);
    let found = whole.expect("opens").verify(&|_| ()).expect("reads");
    assert!(found.agrees(), "the test itself: {found:?}");
}

#[test]
fn a_head_with_numbers_and_times_that_no_store_can_reach_is_refused() {
    let right = Totals::default();
    for totals in [
        Totals { last_at_ms: MAX_AT_MS + 1, ..right },
        Totals { last_at_ms: u64::MAX, ..right },
        Totals { last_sequence: MAX_SEQUENCE + 1, ..right },
        Totals { last_sequence: MAX_SEQUENCE, ..right },
        Totals { last_sequence: u64::MAX, ..right },
        Totals { stored_from: 0, ..right },
        Totals { stored_from: 2, ..right },
    ] {
        let opened = open(totals, &[]).map(|backup| backup.position());
        assert!(matches!(opened, Err(OpenError::Damaged(_))), "{opened:?}");
    }
}

#[test]
fn a_plant_of_another_version_is_not_reported_as_damage() {
    let record = [128, 1, 7, 0];
    let totals = one_plant(&record, 7);
    let key = plant_key(PlantId::from(7));
    let open = || open(totals, &[(Map::Plants, &[(&key, Some(&record))])]).expect("opens");
    let found = open().verify(&|_| ()).expect_err("it cannot be compared").to_string();
    assert!(found.contains("has version 128"), "{found}");
    let folder = tempfile::tempdir().expect("a folder");
    let refusal = open().restore(folder.path(), None, &|_| ()).expect_err("it is unknown");
    assert!(matches!(refusal, RestoreError::Unusable(_)), "{refusal}");
}
