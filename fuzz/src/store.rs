//! What plant-store reads from the disk.

use plant_store::internal;

use crate::FuzzTarget;

pub(crate) const TARGETS: [FuzzTarget; 7] = [
    FuzzTarget { name: "plant_record", check: plant_record },
    FuzzTarget { name: "block", check: block },
    FuzzTarget { name: "backup", check: backup },
    FuzzTarget { name: "manifest", check: manifest },
    FuzzTarget { name: "log_group", check: log_group },
    FuzzTarget { name: "log_segment", check: log_segment },
    FuzzTarget { name: "archive_piece", check: archive_piece },
];

fn plant_record(bytes: &[u8]) {
    let Ok((encoded, record, _)) = internal::plant_record(bytes) else { return };
    let (_, again, _) = internal::plant_record(&encoded).expect("written bytes can be read");
    assert_eq!(again, record);
}

fn block(bytes: &[u8]) {
    let Ok(entries) = internal::block(bytes) else { return };
    let block = internal::block_of(&entries).expect("entries can be written");
    assert_eq!(internal::block(&block).expect("written bytes can be read"), entries);
}

/// The first byte is the length of the head. After the head come blocks, each preceded by the number of its map and
/// its length.
fn backup(input: &[u8]) {
    let Some((head_bytes, rest)) = input.split_first() else { return };
    let (head, mut rest) = rest.split_at(rest.len().min(usize::from(*head_bytes)));
    let mut blocks = Vec::new();
    while let [map, block_bytes, more @ ..] = rest {
        let (block, more) = more.split_at(more.len().min(usize::from(*block_bytes)));
        blocks.push((*map, block));
        rest = more;
    }
    drop(internal::backup(head, &blocks));
}

fn manifest(content: &[u8]) {
    let Ok((encoded, manifest)) = internal::manifest(content) else { return };
    let (_, again) = internal::manifest(&encoded).expect("written bytes can be read");
    assert_eq!(again, manifest);
}

fn log_group(payload: &[u8]) {
    let Ok((payload, group)) = internal::log_group(payload) else { return };
    let segment =
        internal::log_segment(&payload, *b"a salt  ", &[0; 64], 24).expect("the record fits");
    let [found] = internal::whole_records(&segment)[..] else { panic!("there is one record") };
    let (_, again) = internal::log_group(found).expect("written bytes can be read");
    assert_eq!(again, group);
}

/// The first two bytes are the numbers in the name of the file.
fn archive_piece(input: &[u8]) {
    let Some(([first, last], content)) = input.split_first_chunk() else { return };
    if *first > 0 {
        drop(internal::archive_piece(content, u64::from(*first), u64::from(*last)));
    }
}

/// The first byte says where a record is inserted into the other bytes.
fn log_segment(input: &[u8]) {
    /// The payload of a group without changes.
    const GROUP: [u8; 6] = [1, 1, 0, 0, 0, 0];
    let Some((offset, segment)) = input.split_first() else { return };
    for payload in internal::whole_records(segment) {
        // An intact record need not be a group.
        drop(internal::log_group(payload));
    }
    let Some((salt, other)) = segment.split_first_chunk() else { return };
    let offset = usize::from(*offset).min(other.len() / 8) * 8;
    let segment = internal::log_segment(&GROUP, *salt, other, offset).expect("small");
    let offset = salt.len() + offset;
    let stands_there = |payload: &&[u8]| {
        // An intact record before the inserted one may cover it.
        let begins = payload.as_ptr().addr() - segment.as_ptr().addr();
        begins > offset && *payload == GROUP || (begins..begins + payload.len()).contains(&offset)
    };
    let found = internal::whole_records(&segment);
    assert!(found.iter().any(stands_there), "a whole record is found wherever it stands");
}
