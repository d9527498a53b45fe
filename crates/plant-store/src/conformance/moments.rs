//! Reads while batches are carried out: each read shows the store before a batch or after it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plant_domain::{PlantFilter, PlantId};
use tokio::task::{JoinSet, yield_now};

use super::batches::send_batch;
use super::pages::{all_pages, all_pages_back, all_tags, filter_of};
use super::store_under_test::{StoreUnderTest, new_plant};
use crate::write::Write;
use crate::{
    Author, BackupReader, Batch, EventKind, EventsAfter, OnConflict, PagePlace, PageRequest,
    PlantRepository, Preconditions, SledConfig, SledRepository, StoreError, StoredPlant,
    TagPageRequest,
};

const WRITERS: [i64; 3] = [0, 1, 2];

/// Where the plants of a writer are: spread over the whole space of ids.
const PLACES: [i64; 5] = [i64::MIN, -1_000_000, 1_500, 1_000_000, i64::MAX - 100];

const PLANTS: usize = PLACES.len();

/// Plants that never change, so that the others are in several blocks.
const FILLERS: usize = 300;

/// How many plants exist at each moment: [`PLANTS`] that each writer renames, and as many that it replaces.
const STORED: usize = FILLERS + WRITERS.len() * 2 * PLANTS;

/// More than there are plants.
const ALL: usize = 1_000;

/// The number of the events of one batch.
const EVENTS: usize = 3 * PLANTS;

/// The plants of a writer: those that exist after even rounds only, after odd ones, and always.
const SETS: [i64; 3] = [0, 1, ALWAYS];
const ALWAYS: i64 = 2;

/// The id of a plant of a writer. Plants of several writers are neighbors.
const fn id(writer: i64, set: i64, place: i64) -> i64 {
    place + 10 * set + writer
}

fn name(writer: i64, round: i64) -> String {
    format!("writer {writer} in round {round}")
}

fn tag(writer: i64, round: i64) -> String {
    format!("of {writer} in round {}", round % 4)
}

fn tag_kept(writer: i64) -> String {
    format!("kept by {writer}")
}

/// Renames the plants that always exist, and replaces the others: the round is in every name.
fn batch(writer: i64, round: i64) -> Batch {
    let (gone, new) = ((round + 1) % 2, round % 2);
    let name = name(writer, round);
    let writes = PLACES.into_iter().flat_map(|place| {
        let renamed = new_plant(id(writer, ALWAYS, place), &name, Some(&tag(writer, round)));
        let created = new_plant(id(writer, new, place), &name, Some(&tag_kept(writer)));
        let gone = PlantId::from(id(writer, gone, place));
        [
            Write::Delete(gone, Preconditions::default()),
            Write::Put(renamed, Preconditions::default()),
            Write::Create(created, None),
        ]
    });
    let by = Some(Author::new(format!("writer {writer}")).expect("valid"));
    Batch { writes: writes.collect(), by, idempotency: None }
}

/// Checks that these plants of a writer are all that exist after one round.
fn assert_one_round(writer: i64, plants: &BTreeMap<i64, StoredPlant>) {
    let first = plants.get(&id(writer, ALWAYS, PLACES[0])).expect("it always exists");
    let round = first.plant.name().rsplit(' ').next().and_then(|round| round.parse().ok());
    let round: i64 = round.expect("a round");
    for place in PLACES {
        for (set, tag) in [(ALWAYS, tag(writer, round)), (round % 2, tag_kept(writer))] {
            let found = plants.get(&id(writer, set, place));
            let found = found.map(|it| (it.plant.name(), it.plant.tag()));
            assert_eq!(found, Some((&*name(writer, round), Some(&*tag))), "the plant at {place}");
        }
        let gone = plants.get(&id(writer, (round + 1) % 2, place));
        assert_eq!(gone, None, "another plant is of round {round}");
    }
}

/// Checks that all plants together are of one moment.
fn assert_one_moment(plants: Vec<StoredPlant>) {
    assert_eq!(plants.len(), STORED);
    let plants: BTreeMap<_, _> = plants.into_iter().map(|it| (it.id.get(), it)).collect();
    WRITERS.into_iter().for_each(|writer| assert_one_round(writer, &plants));
}

/// Runs this many batches of each of several writers, while others read in every way. Each read must show either all of
/// a batch or nothing.
///
/// # Panics
///
/// If a read shows a part of a batch.
pub async fn readers_never_see_a_part_of_a_batch(store: &impl StoreUnderTest, rounds: i64) {
    let repository = store.open().await;
    let fillers = (0..).take(FILLERS).map(|id| new_plant(10 * id + 9, "Rosa", Some("Rosaceae")));
    repository.import(fillers.collect(), OnConflict::Error, None).await.expect("imports");
    for writer in WRITERS {
        let mut first = batch(writer, 0);
        first.writes.retain(|write| !matches!(write, Write::Delete(..)));
        send_batch(&repository, &first).await.expect("the ids are free");
    }
    let writes = Arc::new(AtomicBool::new(true));
    let mut readers = JoinSet::new();
    repeat(&mut readers, &writes, &repository, read_lists);
    repeat(&mut readers, &writes, &repository, read_several);
    repeat(&mut readers, &writes, &repository, read_tags);
    repeat(&mut readers, &writes, &repository, read_events);
    repeat(&mut readers, &writes, &repository, read_snapshot);
    repeat(&mut readers, &writes, &repository, read_backup);
    let mut writers = JoinSet::new();
    for writer in WRITERS {
        let repository = Arc::clone(&repository);
        writers.spawn(async move {
            for round in 1..=rounds {
                let written = send_batch(&repository, &batch(writer, round)).await;
                written.unwrap_or_else(|error| panic!("round {round} failed: {error}"));
            }
        });
    }
    writers.join_all().await;
    writes.store(false, Ordering::Relaxed);
    readers.join_all().await;
    let plants = all_pages(&repository, &PlantFilter::default(), ALL).await;
    assert!(plants.iter().any(|stored| stored.plant.name() == name(0, rounds)));
    assert_one_moment(plants);
}

/// Reads at least once, and as long as others write.
fn repeat<F: Future<Output = ()> + Send + 'static>(
    readers: &mut JoinSet<()>,
    others_write: &Arc<AtomicBool>,
    repository: &Arc<dyn PlantRepository>,
    read: impl Fn(Arc<dyn PlantRepository>) -> F + Send + 'static,
) {
    let (others_write, repository) = (Arc::clone(others_write), Arc::clone(repository));
    readers.spawn(async move {
        loop {
            let goes_on = others_write.load(Ordering::Relaxed);
            read(Arc::clone(&repository)).await;
            if !goes_on {
                return;
            }
            yield_now().await;
        }
    });
}

/// A page that has all matching plants, read forward and backward.
async fn read_lists(repository: Arc<dyn PlantRepository>) {
    let list = async |filter: &PlantFilter, place, limit| {
        let page = repository.list(PageRequest { filter: filter.clone(), place, limit }).await;
        page.expect("reads").stored_plants().expect("valid plants")
    };
    for place in [PagePlace::First, PagePlace::Before(PlantId::MAX)] {
        for limit in [ALL, ALL + 1] {
            assert_one_moment(list(&PlantFilter::default(), place, limit).await);
        }
        for writer in WRITERS {
            let all = 2 * PLANTS;
            for limit in [all, all + 1, ALL] {
                let of_writer = filter_of(Some(&format!("writer {writer} in")), None);
                let plants = list(&of_writer, place, limit).await;
                assert_eq!(plants.len(), all, "{plants:?}");
                let plants = plants.into_iter().map(|it| (it.id.get(), it)).collect();
                assert_one_round(writer, &plants);
                let kept = filter_of(None, Some(&tag_kept(writer)));
                let kept = list(&kept, place, limit).await;
                let names: BTreeSet<_> = kept.iter().map(|it| it.plant.name()).collect();
                assert_eq!((kept.len(), names.len()), (PLANTS, 1), "{kept:?}");
            }
        }
    }
}

async fn read_several(repository: Arc<dyn PlantRepository>) {
    for writer in WRITERS {
        let ids = SETS.into_iter().flat_map(|set| PLACES.map(|place| id(writer, set, place)));
        let page = repository.get_all(ids.map(PlantId::from).collect()).await.expect("reads");
        let plants = page.stored_plants().expect("valid plants");
        assert_one_round(writer, &plants.into_iter().map(|it| (it.id.get(), it)).collect());
    }
}

async fn read_tags(repository: Arc<dyn PlantRepository>) {
    assert_eq!(repository.count(None).await.expect("counts"), STORED as u64);
    let request = TagPageRequest { limit: ALL, ..TagPageRequest::default() };
    let page = repository.tags(request).await.expect("reads");
    let counts: Vec<_> = page.tags.iter().map(|tag| tag.plants).collect();
    // The tag of the fillers, and two tags of each writer.
    assert_eq!(counts.iter().sum::<u64>(), STORED as u64, "{page:?}");
    assert_eq!(counts.len(), 1 + 2 * WRITERS.len(), "{page:?}");
    for writer in WRITERS {
        let kept = repository.count(Some(&tag_kept(writer))).await.expect("counts");
        assert_eq!(kept, PLANTS as u64);
        let of_writer = all_tags(&repository, &format!("of {writer} in"), ALL).await;
        assert!(of_writer.len() == 1 && of_writer.values().eq(&[PLANTS as u64]), "{of_writer:?}");
    }
}

/// The end of the log is never within a batch, and all events of a batch are neighbors.
async fn read_events(repository: Arc<dyn PlantRepository>) {
    let mut cursor = repository.newest_event().await.expect("reads");
    // Pages of whole batches: of some of the events, and of all that there are.
    const SOME: usize = ALL - ALL % EVENTS;
    const EVERY: usize = 100 * EVENTS * ALL;
    for limit in [SOME, EVERY, SOME] {
        // Other writes may come in between.
        for _ in 0..20 {
            yield_now().await;
        }
        let page = match repository.events(EventsAfter::Cursor(cursor), limit).await {
            Err(StoreError::EventsGone) => return,
            page => page.expect("reads"),
        };
        let (batches, rest) = page.events.as_chunks::<EVENTS>();
        assert!(rest.is_empty(), "{} events are a part of a batch", rest.len());
        for batch in batches {
            let [deleted, renamed, created] = [0, 1, 2].map(|first| {
                let events = batch.iter().skip(first).step_by(3);
                events.map(|event| event.kind).collect::<Vec<_>>()
            });
            assert!(deleted.iter().all(|kind| *kind == EventKind::Deleted), "{batch:?}");
            assert!(renamed.iter().all(|kind| *kind == EventKind::Updated), "{batch:?}");
            assert!(created.iter().all(|kind| *kind == EventKind::Created), "{batch:?}");
            assert!(batch.iter().all(|event| event.by == batch[0].by), "{batch:?}");
        }
        cursor = page.next;
    }
}

/// Many small pages of one snapshot.
async fn read_snapshot(repository: Arc<dyn PlantRepository>) {
    let mut snapshot = repository.snapshot().await.expect("there are few");
    let everything = PlantFilter::default();
    let plants = all_pages(&mut snapshot, &everything, 7).await;
    assert_one_moment(plants.clone());
    assert_eq!(all_pages_back(&mut snapshot, &everything, PlantId::MAX, 11).await, plants);
    let of_writers = filter_of(Some("in round"), None);
    let expected: Vec<_> =
        plants.into_iter().filter(|it| it.plant.name().starts_with("writer")).collect();
    assert_eq!(all_pages(&mut snapshot, &of_writers, 3).await, expected);
}

async fn read_backup(repository: Arc<dyn PlantRepository>) {
    let mut backup = match repository.backup().await {
        Err(StoreError::NoBackups(_)) => return,
        backup => backup.expect("there is no other"),
    };
    let mut bytes = Vec::new();
    while let Some((part, rest)) = backup.next().await.expect("reads") {
        bytes.extend_from_slice(&part);
        backup = rest;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let reader = BackupReader::new(std::io::Cursor::new(bytes), "the backup".to_owned());
    let restored = reader.expect("it is a backup").restore(folder.path(), None, &|_| ());
    restored.expect("restores");
    let restored = SledRepository::open(&SledConfig::new(folder.path())).expect("opens");
    let restored: Arc<dyn PlantRepository> = Arc::new(restored);
    assert_one_moment(all_pages(&restored, &PlantFilter::default(), ALL).await);
    read_tags(restored).await;
}
