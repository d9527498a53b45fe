//! Sorts the kept events by plant, for a verification.
//!
//! Events come ordered by sequence number, but plants by id. So the events are sorted: a batch at a time in memory, and
//! the full batches in temporary files, which are merged. Each event is read once, so a backup may come from a pipe.

use std::fs::File;
use std::io::{
    self, BufRead as _, BufReader, BufWriter, ErrorKind, Read as _, Seek as _, Write as _,
};
use std::{iter, mem};

use plant_domain::PlantId;

use crate::EventKind;

/// How many events are sorted in memory: 24 MiB.
const EVENTS_IN_MEMORY: usize = 1024 * 1024;

/// The bytes of an event in a file.
const EVENT_BYTES: usize = 17;

const KINDS: [EventKind; 3] = [EventKind::Created, EventKind::Updated, EventKind::Deleted];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlantEvent {
    id: i64,
    pub(super) sequence: u64,
    pub(super) kind: EventKind,
}

impl PlantEvent {
    pub(super) fn new(id: PlantId, sequence: u64, kind: EventKind) -> Self {
        Self { id: id.get(), sequence, kind }
    }

    /// The sort key.
    const fn place(&self) -> (i64, u64) {
        (self.id, self.sequence)
    }

    fn encode(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [self.kind as u8; EVENT_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }

    fn decode(bytes: [u8; EVENT_BYTES]) -> io::Result<Self> {
        let [id @ .., _, _, _, _, _, _, _, _, kind] = bytes;
        let [_, _, _, _, _, _, _, _, sequence @ .., _] = bytes;
        let kind = KINDS.get(usize::from(kind)).copied().ok_or(ErrorKind::InvalidData)?;
        Ok(Self { id: i64::from_be_bytes(id), sequence: u64::from_be_bytes(sequence), kind })
    }
}

/// Sorted events.
type Run = Box<dyn Iterator<Item = io::Result<PlantEvent>>>;

/// Events in any order.
pub(super) struct UnsortedEvents {
    in_memory: Vec<PlantEvent>,
    runs: Vec<Run>,
    events_in_memory: usize,
}

impl Default for UnsortedEvents {
    fn default() -> Self {
        Self { in_memory: Vec::new(), runs: Vec::new(), events_in_memory: EVENTS_IN_MEMORY }
    }
}

impl UnsortedEvents {
    pub(super) fn add(&mut self, event: PlantEvent) -> anyhow::Result<()> {
        if self.in_memory.len() == self.events_in_memory {
            self.in_memory.sort_unstable_by_key(PlantEvent::place);
            let written = tempfile::tempfile().and_then(|file| write(&self.in_memory, file));
            self.runs.push(read(written.map_err(of_temporary_file)?));
            self.in_memory.clear();
        }
        self.in_memory.push(event);
        Ok(())
    }

    pub(super) fn sort(&mut self) -> anyhow::Result<EventsByPlant> {
        let Self { mut in_memory, mut runs, .. } = mem::take(self);
        in_memory.sort_unstable_by_key(PlantEvent::place);
        runs.push(Box::new(in_memory.into_iter().map(Ok)));
        let begin = |mut rest: Run| Ok((next(&mut rest)?, rest));
        Ok(EventsByPlant { runs: runs.into_iter().map(begin).collect::<anyhow::Result<_>>()? })
    }
}

fn write(events: &[PlantEvent], file: File) -> io::Result<File> {
    let mut output = BufWriter::new(file);
    for event in events {
        output.write_all(&event.encode())?;
    }
    let mut file = output.into_inner()?;
    file.rewind()?;
    Ok(file)
}

fn read(file: File) -> Run {
    let mut input = BufReader::new(file);
    let mut read = move || {
        if input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut bytes = [0; EVENT_BYTES];
        input.read_exact(&mut bytes)?;
        PlantEvent::decode(bytes).map(Some)
    };
    Box::new(iter::from_fn(move || read().transpose()))
}

fn next(run: &mut Run) -> anyhow::Result<Option<PlantEvent>> {
    run.next().transpose().map_err(of_temporary_file)
}

/// Reports any error as one of the disk: it never means that the data are damaged.
fn of_temporary_file(cause: io::Error) -> anyhow::Error {
    anyhow::Error::from(io::Error::other(cause)).context("cannot use a temporary file")
}

/// Events ordered by plant, then by sequence number.
pub(super) struct EventsByPlant {
    /// The next event of each run, and the rest of the run.
    runs: Vec<(Option<PlantEvent>, Run)>,
}

impl EventsByPlant {
    /// The plant with the smallest id that has events left.
    pub(super) fn next_plant(&self) -> Option<PlantId> {
        self.runs
            .iter()
            .filter_map(|(event, _)| *event)
            .map(|event| event.id)
            .min()
            .map(PlantId::from)
    }

    pub(super) fn next_of(&mut self, plant: PlantId) -> anyhow::Result<Option<PlantEvent>> {
        let of_plant = |event: &PlantEvent| event.id == plant.get();
        let runs = self.runs.iter_mut().filter(|(event, _)| event.as_ref().is_some_and(of_plant));
        let first = runs.min_by_key(|(event, _)| event.map(|event| event.sequence));
        let Some((event, rest)) = first else { return Ok(None) };
        Ok(mem::replace(event, next(rest)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sled::health::errors::is_about_content;

    #[test]
    fn events_come_by_plant_and_in_their_order_however_few_fit_in_memory() {
        use EventKind::{Created, Deleted, Updated};
        let events = [(9, Created), (2, Created), (-4, Created), (9, Updated), (2, Deleted)];
        let events = (1..).zip(events.into_iter().cycle()).take(50);
        let events: Vec<_> =
            events.map(|(sequence, (id, kind))| PlantEvent { id, sequence, kind }).collect();
        let mut expected = events.clone();
        expected.sort_by_key(PlantEvent::place);
        for events_in_memory in [1, 2, 7, 49, 50, 51] {
            let mut unsorted = UnsortedEvents { events_in_memory, ..UnsortedEvents::default() };
            for event in &events {
                unsorted.add(*event).expect("writes");
                assert!(unsorted.in_memory.len() <= events_in_memory);
            }
            let mut sorted = unsorted.sort().expect("reads");
            let mut found = Vec::new();
            while let Some(plant) = sorted.next_plant() {
                while let Some(event) = sorted.next_of(plant).expect("reads") {
                    found.push(event);
                }
            }
            assert_eq!(found, expected, "{events_in_memory}");
        }
    }

    #[test]
    fn a_full_folder_for_temporary_files_is_not_reported_as_damage() {
        let full = File::options().read(true).write(true).open("/dev/full").expect("opens");
        let events = [PlantEvent { id: 1, sequence: 1, kind: EventKind::Created }];
        let error = of_temporary_file(write(&events, full).expect_err("it is full"));
        assert!(!is_about_content(&error), "{error:#}");
        let missing = io::Error::from(ErrorKind::NotFound);
        assert!(!is_about_content(&of_temporary_file(missing)));
    }
}
