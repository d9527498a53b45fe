//! Holds a repository against the contract of [`PlantRepository`].
//!
//! Give [`check`] a way to make empty places for a repository; it panics at the first claim that does
//! not hold. This crate's own test of the sled repository shows how to call it.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId, UncheckedNewPlant};
use tokio::task::JoinSet;

use crate::{IdempotencyDigest, PlantRepository, Revision, StoreError, StoredPlant};

/// A place where a repository keeps its plants: a folder, say, or a database schema.
#[async_trait]
pub trait Place: Send + Sync {
    /// Opens the repository here. It is opened again only after it was closed and dropped.
    async fn open(&self) -> Arc<dyn PlantRepository>;
}

/// Checks every claim of the contract, each in a new empty place. Needs a tokio runtime.
///
/// # Panics
///
/// When a claim does not hold; the message says which.
pub async fn check<P: Place>(new_place: impl AsyncFn() -> P) {
    a_created_plant_reads_back_exactly(&new_place().await).await;
    what_was_never_created_is_not_found(&new_place().await).await;
    an_id_that_is_taken_is_refused_and_nothing_changes(&new_place().await).await;
    one_of_many_creates_of_the_same_id_wins(&new_place().await).await;
    many_creates_at_once_all_arrive(&new_place().await).await;
    revisions_grow_and_never_repeat(&new_place().await).await;
    a_create_sent_again_gets_the_same_answer(&new_place().await).await;
    everything_is_there_after_opening_again(&new_place().await).await;
    a_caller_that_goes_away_cancels_nothing(&new_place().await).await;
    a_closed_repository_is_read_but_not_written(&new_place().await).await;
}

fn new_plant(id: i64, name: &str, tag: Option<&str>) -> NewPlant {
    let unchecked = UncheckedNewPlant { id, name: name.to_owned(), tag: tag.map(str::to_owned) };
    NewPlant::try_from(unchecked).expect("the suite's plants are valid")
}

async fn create(repository: &Arc<dyn PlantRepository>, new_plant: &NewPlant) -> StoredPlant {
    let id = new_plant.id();
    let stored = repository.create(new_plant.clone(), None).await;
    stored.unwrap_or_else(|error| panic!("creating plant {id} failed: {error}"))
}

async fn get(repository: &Arc<dyn PlantRepository>, id: PlantId) -> Option<StoredPlant> {
    let found = repository.get(id).await;
    found.unwrap_or_else(|error| panic!("reading plant {id} failed: {error}"))
}

/// Plants at the edges of what the rules allow.
fn edge_plants() -> Vec<NewPlant> {
    let longest = "木".repeat(255);
    vec![
        new_plant(i64::MIN, "Rosa × damascena", Some("Rosaceae")),
        new_plant(-1, " Salix alba ", None),
        new_plant(0, "\"Kalmia\", 'Ostbo Red'", Some("Rosaceae, cultivated")),
        new_plant(1, &longest, Some(&longest)),
        new_plant(i64::MAX, "🌱\u{200b}é", Some("R")),
    ]
}

async fn a_created_plant_reads_back_exactly(place: &impl Place) {
    let repository = place.open().await;
    for new_plant in edge_plants() {
        let created = create(&repository, &new_plant).await;
        assert_eq!(created.clone().into_new_plant(), new_plant);
        assert_eq!(get(&repository, new_plant.id()).await, Some(created));
    }
}

async fn what_was_never_created_is_not_found(place: &impl Place) {
    let repository = place.open().await;
    create(&repository, &new_plant(7, "Rosa", Some("Rosaceae"))).await;
    for id in [i64::MIN, -7, 0, 6, 8, i64::MAX] {
        assert_eq!(get(&repository, PlantId::from(id)).await, None);
    }
}

async fn an_id_that_is_taken_is_refused_and_nothing_changes(place: &impl Place) {
    let repository = place.open().await;
    let first = create(&repository, &new_plant(7, "Rosa", None)).await;
    for again in [new_plant(7, "Rosa", None), new_plant(7, "Salix", Some("Salicaceae"))] {
        let refusal = repository.create(again, None).await;
        assert!(
            matches!(refusal, Err(StoreError::IdTaken(id)) if id == first.id),
            "a second create of plant 7 gave {refusal:?}"
        );
        assert_eq!(get(&repository, first.id).await.as_ref(), Some(&first));
    }
}

async fn one_of_many_creates_of_the_same_id_wins(place: &impl Place) {
    let repository = place.open().await;
    let mut creates = JoinSet::new();
    for number in 0..64 {
        let repository = Arc::clone(&repository);
        let new_plant = new_plant(7, &format!("Rosa {number}"), None);
        creates.spawn(async move { repository.create(new_plant, None).await });
    }
    let mut winners = Vec::new();
    for outcome in creates.join_all().await {
        match outcome {
            Ok(stored) => winners.push(stored),
            Err(StoreError::IdTaken(_)) => {}
            Err(error) => panic!("a create of plant 7 failed: {error}"),
        }
    }
    assert_eq!(winners.len(), 1, "exactly one create wins");
    assert_eq!(get(&repository, PlantId::from(7)).await, winners.pop());
}

async fn many_creates_at_once_all_arrive(place: &impl Place) {
    const CREATES: i64 = 3_000;
    let repository = place.open().await;
    let mut creates = JoinSet::new();
    for id in 0..CREATES {
        let repository = Arc::clone(&repository);
        // Tags of the greatest length make groups whose events are large.
        let tag = format!("{}{}", "木".repeat(254), id % 10);
        let new_plant = new_plant(id, &format!("Rosa {id}"), Some(&tag));
        creates.spawn(async move {
            loop {
                match repository.create(new_plant.clone(), None).await {
                    Ok(stored) => return stored,
                    Err(StoreError::Busy) => tokio::task::yield_now().await,
                    Err(error) => panic!("creating plant {id} failed: {error}"),
                }
            }
        });
    }
    for stored in creates.join_all().await {
        assert_eq!(get(&repository, stored.id).await.as_ref(), Some(&stored));
    }
}

async fn revisions_grow_and_never_repeat(place: &impl Place) {
    let mut last = Revision::from(0);
    for opening in 0..3 {
        let repository = place.open().await;
        for number in 0..5 {
            let created = create(&repository, &new_plant(opening * 5 + number, "Rosa", None)).await;
            assert!(created.revision > last, "{} comes after {last}", created.revision);
            last = created.revision;
        }
        repository.close().await.expect("closes");
    }
}

async fn a_create_sent_again_gets_the_same_answer(place: &impl Place) {
    let rose = new_plant(7, "Rosa", Some("Rosaceae"));
    let digest = IdempotencyDigest::new("key", &rose);
    let other_digest = IdempotencyDigest::new("other key", &rose);

    let repository = place.open().await;
    let first = repository.create(rose.clone(), Some(digest)).await.expect("the id is free");
    for other in [None, Some(other_digest)] {
        let refusal = repository.create(rose.clone(), other).await;
        assert!(matches!(refusal, Err(StoreError::IdTaken(_))), "{refusal:?}");
    }
    let again = repository.create(rose.clone(), Some(digest)).await.expect("it is the same create");
    assert_eq!(again, first);
    repository.close().await.expect("closes");
    drop(repository);

    let repository = place.open().await;
    let again = repository.create(rose.clone(), Some(digest)).await.expect("it is the same create");
    assert_eq!(again, first);
    assert_eq!(get(&repository, rose.id()).await, Some(first), "sending again wrote nothing");

    let poplar = new_plant(9, "Populus", None);
    let digest = IdempotencyDigest::new("key", &poplar);
    let mut at_once = JoinSet::new();
    for _ in 0..16 {
        let (repository, poplar) = (Arc::clone(&repository), poplar.clone());
        at_once.spawn(async move { repository.create(poplar, Some(digest)).await });
    }
    let answers: BTreeSet<Revision> = at_once
        .join_all()
        .await
        .into_iter()
        .map(|outcome| outcome.expect("they are all the same create").revision)
        .collect();
    assert_eq!(answers.len(), 1, "the same create was carried out once");
}

async fn everything_is_there_after_opening_again(place: &impl Place) {
    let repository = place.open().await;
    let mut created = Vec::new();
    for new_plant in edge_plants() {
        created.push(create(&repository, &new_plant).await);
    }
    repository.close().await.expect("closes");
    drop(repository);

    for _ in 0..3 {
        let repository = place.open().await;
        for stored in &created {
            assert_eq!(get(&repository, stored.id).await.as_ref(), Some(stored));
            let refusal = repository.create(stored.clone().into_new_plant(), None).await;
            assert!(matches!(refusal, Err(StoreError::IdTaken(_))), "{refusal:?}");
        }
        repository.close().await.expect("closes");
    }
}

async fn a_caller_that_goes_away_cancels_nothing(place: &impl Place) {
    let repository = place.open().await;
    let rose = new_plant(7, "Rosa", None);
    {
        let mut create = pin!(repository.create(rose.clone(), None));
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = create.as_mut().poll(&mut context) {
            outcome.expect("the id is free");
        }
    }
    repository.close().await.expect("closes");
    let kept = get(&repository, rose.id()).await.expect("the create was taken");
    assert_eq!(kept.into_new_plant(), rose);
}

async fn a_closed_repository_is_read_but_not_written(place: &impl Place) {
    let repository = place.open().await;
    let rose = create(&repository, &new_plant(7, "Rosa", None)).await;
    repository.check_ready().await.expect("an open repository is ready");
    repository.close().await.expect("closes");
    repository.close().await.expect("closes");

    assert!(repository.check_ready().await.is_err());
    let refusal = repository.create(new_plant(8, "Salix", None), None).await;
    assert!(matches!(refusal, Err(StoreError::Failed(_))), "{refusal:?}");
    assert_eq!(get(&repository, rose.id).await, Some(rose));
}
