//! Archives of a store whose clock was wrong.

use std::path::Path;

use plant_domain::PlantId;

use super::*;
use crate::EventKind;
use crate::event::from_millis;
use crate::record::PlantRecord;
use crate::sled::backup::archive::write_piece;
use crate::sled::commit::change::{Change, Origin};

const EVENT_LOG: u32 = 7;

/// Writes an archive with a piece for each change, each of which creates a plant at one of these times.
fn write(archive: &Path, times_ms: &[u64]) {
    let mut totals = Totals::default();
    for (revision, at_ms) in (1..).zip(times_ms) {
        let record = PlantRecord::named("Rosa", revision);
        let record = record.encode().expect("encodes");
        let id = PlantId::from(revision.cast_signed());
        let created = Change::new(EventKind::Created, id, Origin::default(), None, Some(record));
        let mut group = ChangeGroup { at_ms: *at_ms, ..ChangeGroup::after(&totals, 1) };
        group.changes.push(created);
        let (event_log, first_sequence, last_sequence) = (EVENT_LOG, revision, revision);
        let name = PieceName { event_log, first_sequence, last_sequence };
        let payload = group.encode().expect("encodes");
        write_piece(archive, name, vec![&payload], "new", None).expect("writes");
        totals = totals.after(&group).expect("it follows");
    }
}

#[test]
fn a_time_that_a_wrong_clock_hides_leaves_changes_out_and_counts_them() {
    let archive = tempfile::tempdir().expect("a folder");
    write(archive.path(), &[10, 20, 99, 98, 30, 40]);
    for (until_ms, last_sequence, left_out) in [
        (9, 0, LeftOut { changes: 6, not_later: 0 }),
        (20, 2, LeftOut { changes: 4, not_later: 0 }),
        (30, 2, LeftOut { changes: 4, not_later: 1 }),
        (50, 2, LeftOut { changes: 4, not_later: 2 }),
        (98, 2, LeftOut { changes: 4, not_later: 3 }),
        (99, 6, LeftOut { changes: 0, not_later: 0 }),
    ] {
        let until = Some(Until::Time(from_millis(until_ms)));
        let moment = PointInTime { archive: archive.path().to_owned(), until };
        let mut reader =
            ArchiveReader::after(&moment, EVENT_LOG, Totals::default()).expect("it has the log");
        while reader.next().expect("it is whole").is_some() {}
        assert_eq!(reader.totals.last_sequence, last_sequence, "until {until_ms}");
        assert_eq!(reader.left_out(), left_out, "until {until_ms}");
    }
}
