//! Histories of plants, and who made each change.

use plant_domain::{PlantId, PlantPatch, TagPatch};
use plant_postgres::PostgresRepository;
use plant_store::write::Write;
use plant_store::{
    Author, Batch, EventKind, EventsAfter, HistoryPage, HistoryRequest, OnConflict, PastChange,
    PlantRepository, Preconditions, Revision, StoreError,
};

use crate::schema::{
    Schema, create, create_by_hand, delete, numbered, page_of_events, plant, wait_until_forgotten,
};

fn author(name: &str) -> Author {
    Author::new(name).expect("an author")
}

fn renaming(id: i64, name: &str) -> Write {
    let patch = PlantPatch::new(Some(name.to_owned()), TagPatch::Keep).expect("valid");
    Write::Patch(PlantId::from(id), patch, Preconditions::default())
}

fn deletion(id: i64) -> Write {
    Write::Delete(PlantId::from(id), Preconditions::default())
}

async fn page(
    repository: &PostgresRepository,
    id: i64,
    before: Option<u64>,
    limit: usize,
) -> HistoryPage {
    let before = before.map(Revision::from);
    let request = HistoryRequest { id: PlantId::from(id), before, limit };
    repository.history(request).await.expect("the plant is known")
}

/// The whole history, read in pages.
async fn history(repository: &PostgresRepository, id: i64, limit: usize) -> Vec<PastChange> {
    let (mut changes, mut before) = (Vec::new(), None);
    loop {
        let page = page(repository, id, before, limit).await;
        assert!(page.changes.len() <= limit, "{} changes", page.changes.len());
        changes.extend(page.changes);
        match page.next {
            Some(next) => before = Some(next.get()),
            None => break,
        }
    }
    assert!(changes.is_sorted_by(|one, older| one.revision > older.revision), "{changes:?}");
    changes
}

/// Kind, name after the change, and author.
fn told(changes: &[PastChange]) -> Vec<(EventKind, Option<&str>, Option<&str>)> {
    changes
        .iter()
        .map(|change| {
            let name = change.plant.as_ref().map(plant_domain::Plant::name);
            (change.kind, name, change.by.as_ref().map(Author::name))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_changes_of_one_group_are_all_in_the_history_with_their_authors() {
    use EventKind::{Created, Deleted, Updated};
    let schema = Schema::new();
    let repository = schema.open().await;
    create(&repository, 1).await;
    repository.write(renaming(1, "alone"), Some(author("ann"))).await.expect("there is a plant");
    let writes = vec![
        renaming(1, "first"),
        renaming(1, "first"),
        Write::Create(numbered(2), None),
        renaming(1, "second"),
        deletion(1),
        renaming(2, "other"),
        Write::Create(plant(1, "again", Some("tag")), None),
    ];
    let batch = Batch { writes, by: Some(author("bob")), idempotency: None };
    repository.batch(batch).await.expect("it is carried out");
    // An import writes several changes of one plant in one group too.
    let rows = vec![numbered(3), plant(1, "imported", None), plant(1, "last", None)];
    repository.import(rows, OnConflict::Replace, Some(author("cy"))).await.expect("imports");
    let expected = [
        (Updated, Some("last"), Some("cy")),
        (Updated, Some("imported"), Some("cy")),
        (Created, Some("again"), Some("bob")),
        (Deleted, None, Some("bob")),
        (Updated, Some("second"), Some("bob")),
        (Updated, Some("first"), Some("bob")),
        (Updated, Some("alone"), Some("ann")),
        (Created, Some("plant 1"), None),
    ];
    for limit in [1, 2, 3, 7, 8, 9] {
        assert_eq!(told(&history(&repository, 1, limit).await), expected, "{limit}");
    }
    let of_other = history(&repository, 2, 9).await;
    let of_two = [(Updated, Some("other"), Some("bob")), (Created, Some("plant 2"), Some("bob"))];
    assert_eq!(told(&of_other), of_two);

    // The events agree, and each state can be read again.
    let changes = history(&repository, 1, 9).await;
    let events = page_of_events(&repository, EventsAfter::Oldest).await;
    let mut of_plant: Vec<_> =
        events.into_iter().filter(|event| event.id == PlantId::from(1)).collect();
    of_plant.reverse();
    for (change, event) in changes.iter().zip(&of_plant) {
        let of_event = (event.revision(), event.kind, event.at, &event.by);
        assert_eq!((change.revision, change.kind, change.at, &change.by), of_event);
        let version = repository.version(event.id, change.revision).await;
        match &change.plant {
            Some(plant) => assert_eq!(version.expect("it is known").plant, *plant),
            None => assert!(matches!(version, Err(StoreError::VersionGone(..))), "{version:?}"),
        }
    }
    assert_eq!(changes.len(), of_plant.len());
    let last = page(&repository, 1, None, 8).await;
    assert_eq!((last.next, last.is_cut), (None, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_begins_before_any_revision_of_the_plant_and_no_other() {
    let schema = Schema::new();
    let repository = schema.open().await;
    for turn in 0..6 {
        repository
            .put(plant(1, &format!("turn {turn}"), None), Preconditions::default())
            .await
            .expect("puts");
        create(&repository, 100 + turn).await;
    }
    let all = history(&repository, 1, 100).await;
    for change in &all {
        let before = change.revision.get();
        let page = page(&repository, 1, Some(before), 2).await;
        let expected: Vec<_> =
            all.iter().filter(|change| change.revision.get() < before).take(2).cloned().collect();
        assert_eq!(page.changes, expected);
    }
    let unused = HistoryRequest { id: PlantId::from(7), before: None, limit: 1 };
    let unknown = repository.history(unused).await;
    assert!(matches!(unknown, Err(StoreError::NoSuchPlant(_))), "{unknown:?}");
    let of_other = create(&repository, 200).await;
    for before in [0, 1, of_other.get(), of_other.get() + 1, u64::MAX].map(Revision::from) {
        let request = HistoryRequest { id: PlantId::from(1), before: Some(before), limit: 1 };
        let gone = repository.history(request).await;
        assert!(matches!(gone, Err(StoreError::VersionGone(..))), "{before}: {gone:?}");
    }
    let foreign = repository.version(PlantId::from(100), all[0].revision).await;
    assert!(matches!(foreign, Err(StoreError::VersionGone(..))), "{foreign:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_ends_where_events_are_forgotten_and_says_so() {
    const KEPT: u64 = 4;
    let schema = Schema::keeping(KEPT);
    let repository = schema.open().await;
    let first = create(&repository, 1).await;
    let old = create(&repository, 2).await;
    for turn in 0..3 {
        repository.write(renaming(1, &format!("turn {turn}")), None).await.expect("renames");
    }
    create(&repository, 3).await;
    delete(&repository, 3).await;
    for id in 10..14 {
        create(&repository, id).await;
    }
    repository.write(renaming(1, "last"), None).await.expect("renames");
    wait_until_forgotten(&schema, KEPT);

    let of_one = page(&repository, 1, None, 10).await;
    assert_eq!(told(&of_one.changes), [(EventKind::Updated, Some("last"), None)]);
    assert_eq!((of_one.next, of_one.is_cut), (None, true));
    let before = Some(of_one.changes[0].revision.get());
    let forgotten = page(&repository, 1, before, 10).await;
    assert_eq!((forgotten.changes.len(), forgotten.next, forgotten.is_cut), (0, None, true));
    let request = HistoryRequest { id: PlantId::from(1), before: Some(first), limit: 1 };
    let gone = repository.history(request).await;
    assert!(matches!(gone, Err(StoreError::VersionGone(..))), "{gone:?}");
    // Nothing is known of a change of the plant, but the plant itself.
    let of_two = page(&repository, 2, None, 10).await;
    assert_eq!((of_two.changes.len(), of_two.is_cut), (0, true));
    let current = repository.version(PlantId::from(2), old).await.expect("it is current");
    assert_eq!(current.plant.name(), "plant 2");
    let gone = repository.version(PlantId::from(1), first).await;
    assert!(matches!(gone, Err(StoreError::VersionGone(..))), "{gone:?}");
    let request = HistoryRequest { id: PlantId::from(3), before: None, limit: 1 };
    let removed = repository.history(request).await;
    assert!(matches!(removed, Err(StoreError::NoSuchPlant(_))), "{removed:?}");
}

/// A program of version 4 leaves the new columns out.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_program_without_histories_cut_the_history() {
    let schema = Schema::new();
    let repository = schema.open().await;
    create(&repository, 1).await;
    schema.query(&create_by_hand(2));
    repository.write(renaming(2, "known"), Some(author("ann"))).await.expect("renames");
    let page = page(&repository, 2, None, 10).await;
    assert_eq!(told(&page.changes), [(EventKind::Updated, Some("known"), Some("ann"))]);
    assert!(page.is_cut);
}
