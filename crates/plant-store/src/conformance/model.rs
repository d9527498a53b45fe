//! Random operations on a repository and on a model, which is too simple to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use plant_domain::{NewPlant, Plant, PlantFilter, PlantId, PlantPatch, TagPatch};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use super::{DEADLINE, StoreUnderTest, all_pages, all_tags};
use crate::{
    Created, Event, EventCursor, EventKind, EventPage, EventsAfter, IdempotencyDigest, Imported,
    OnConflict, PlantRepository, Precondition, Preconditions, Put, Revision, Revisions, StoreError,
    StoredPlant,
};

/// Few ids, so that operations often hit the same plant.
const IDS: [i64; 8] = [i64::MIN, -2, -1, 0, 1, 2, 3, i64::MAX];
const NAMES: [&str; 5] = ["Rosa", "ROSA ×", " rosa 'alba'", "Straße", "\u{200b}🌱"];
/// Two that names contain only when both are folded, one that no name contains, and short ones.
const NAME_PARTS: [&str; 6] = ["RoSa ", "STRASSE", "rosen", "ss", "×", "🌱"];
/// Some are prefixes of others, or differ only in case or white space. The last three take two to four bytes in UTF-8.
const TAGS: [&str; 6] = ["R", "r", "R ", "é", "木", "🌱"];

/// Random operations on a repository.
#[derive(Clone, Debug)]
pub struct Operations(Vec<Operation>);

#[derive(Clone, Debug)]
enum Operation {
    Create(NewPlant, Option<String>),
    /// Sends the last create with a key again.
    Resend,
    Put(NewPlant, Condition),
    Patch(PlantId, PlantPatch, Condition),
    Delete(PlantId, Condition),
    Import(Vec<NewPlant>, OnConflict),
    /// Closes the repository, and opens it again.
    Reopen,
    /// Calls [`StoreUnderTest::kill`], and opens the repository again.
    Kill,
}

/// A precondition and its revisions, which depend on the plant's revision at the time.
type Condition = Option<(Precondition, KnownLater)>;

#[derive(Clone, Copy, Debug)]
enum KnownLater {
    /// The plant's revision; none if there is no plant.
    Current,
    /// A revision that no plant has.
    Other,
    Any,
}

/// Up to `length` random operations.
pub fn operations(length: usize) -> impl Strategy<Value = Operations> {
    vec(operation(), 1..=length).prop_map(Operations)
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || option::of(select(vec!["key", "other key"]).prop_map(str::to_owned));
    let on_conflict = || select(vec![OnConflict::Error, OnConflict::Skip, OnConflict::Replace]);
    prop_oneof![
        6 => (new_plant(), key()).prop_map(|(plant, key)| Operation::Create(plant, key)),
        3 => Just(Operation::Resend),
        6 => (new_plant(), condition()).prop_map(|(plant, when)| Operation::Put(plant, when)),
        6 => (id(), patch(), condition()).prop_map(|(id, patch, when)| Operation::Patch(id, patch, when)),
        6 => (id(), condition()).prop_map(|(id, when)| Operation::Delete(id, when)),
        3 => (vec(new_plant(), 0..8), on_conflict())
            .prop_map(|(plants, on_conflict)| Operation::Import(plants, on_conflict)),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Kill),
    ]
}

fn id() -> impl Strategy<Value = PlantId> {
    select(&IDS[..]).prop_map(PlantId::from)
}

/// One of these texts, one of the maximum length, or any other valid text.
fn text(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    let longest = vec!["木".repeat(255), "木".repeat(254) + "葉"];
    let any_text = vec(any::<char>(), 1..=20).prop_map(String::from_iter);
    prop_oneof![
        8 => select(texts).prop_map(str::to_owned),
        1 => select(longest),
        1 => any_text.prop_filter("a rule", |text| Plant::new(text.as_str(), None).is_ok()),
    ]
}

fn new_plant() -> impl Strategy<Value = NewPlant> {
    (id(), text(&NAMES), option::of(text(&TAGS))).prop_map(|(id, name, tag)| {
        NewPlant::new(id, name, tag).expect("the model's plants are valid")
    })
}

fn patch() -> impl Strategy<Value = PlantPatch> {
    let tag = prop_oneof![
        Just(TagPatch::Keep),
        Just(TagPatch::Remove),
        text(&TAGS).prop_map(TagPatch::Set),
    ];
    (option::of(text(&NAMES)), tag)
        .prop_map(|(name, tag)| PlantPatch::new(name, tag).expect("the model's patches are valid"))
}

fn condition() -> impl Strategy<Value = Condition> {
    let header = select(&[Precondition::IfMatch, Precondition::IfNoneMatch][..]);
    let revisions = select(&[KnownLater::Current, KnownLater::Other, KnownLater::Any][..]);
    option::of((header, revisions))
}

/// How many of the newest events a repository keeps.
#[derive(Clone, Copy, Debug)]
pub enum KeptEvents {
    /// Exactly this number.
    Exactly(usize),
    /// At least this number, and possibly older ones.
    AtLeast(usize),
}

/// Runs the operations on an empty store and on the model. After each operation, compares its outcome and everything
/// readable.
///
/// # Panics
///
/// At the first difference.
pub async fn check(
    store: &impl StoreUnderTest,
    Operations(operations): &Operations,
    kept_events: KeptEvents,
) {
    let mut repository = store.open().await;
    let start = repository.newest_event().await.expect("reads");
    let mut model = Model { start: Some(start), ..Model::default() };
    let mut with_key = None;
    for operation in operations {
        let operation = match operation {
            Operation::Resend => with_key.unwrap_or(operation),
            sent => sent,
        };
        match operation {
            Operation::Reopen => {
                repository.close().await.expect("closes");
                drop(repository);
                store.verify().await;
                repository = store.open().await;
            }
            Operation::Kill => {
                store.kill(repository).await;
                repository = store.open().await;
            }
            _ => {
                if matches!(operation, Operation::Create(_, Some(_))) {
                    with_key = Some(operation);
                }
                model.check_operation(&*repository, operation).await;
                model.check_new_events(&*repository).await;
            }
        }
        model.check_everything(&repository, kept_events).await;
    }
    repository.close().await.expect("closes");
    drop(repository);
    store.verify().await;
}

/// What the repository should hold.
#[derive(Default)]
struct Model {
    /// The position before all events.
    start: Option<EventCursor>,
    plants: BTreeMap<PlantId, (StoredPlant, Option<IdempotencyDigest>)>,
    events: Vec<Event>,
    /// What the last operation did, with the revision if the outcome has one.
    new_events: Vec<(EventKind, PlantId, Option<Revision>)>,
}

impl Model {
    async fn check_operation(&mut self, repository: &dyn PlantRepository, operation: &Operation) {
        match operation {
            Operation::Create(new_plant, key) => {
                let digest = key.as_ref().map(|key| IdempotencyDigest::new(key, new_plant));
                let outcome = repository.create(new_plant.clone(), digest).await;
                match self.plants.get(&new_plant.id()) {
                    None => {
                        let Created { stored, is_current } = outcome.expect("the id is free");
                        assert!(is_current);
                        self.store(new_plant.clone(), digest, Some(stored));
                    }
                    Some((present, known)) if digest.is_some() && *known == digest => {
                        let Created { stored, is_current } =
                            outcome.expect("it is the same create");
                        assert_eq!(is_current, stored == *present);
                        assert_eq!(stored.revision, present.revision);
                        assert_eq!(stored.into_new_plant(), *new_plant);
                    }
                    Some(_) => assert_refused(outcome, &StoreError::IdTaken(new_plant.id())),
                }
            }
            Operation::Put(new_plant, condition) => {
                let is_free = !self.plants.contains_key(&new_plant.id());
                let preconditions = self.preconditions(*condition, new_plant.id());
                let outcome = repository.put(new_plant.clone(), preconditions.clone()).await;
                if let Some(refusal) = self.refusal(&preconditions, new_plant.id()) {
                    return assert_refused(outcome, &refusal);
                }
                let Put { stored, is_new } = outcome.expect("a put is carried out");
                assert_eq!(is_new, is_free);
                self.store(new_plant.clone(), None, Some(stored));
            }
            Operation::Patch(id, patch, condition) => {
                let preconditions = self.preconditions(*condition, *id);
                let outcome = repository.patch(*id, patch.clone(), preconditions.clone()).await;
                let Some((present, _)) = self.plants.get(id).cloned() else {
                    return assert_refused(outcome, &StoreError::NoSuchPlant(*id));
                };
                if let Some(refusal) = self.refusal(&preconditions, *id) {
                    return assert_refused(outcome, &refusal);
                }
                let patched = patch.apply(&present.plant).with_id(*id);
                self.store(patched, None, Some(outcome.expect("a patch is carried out")));
            }
            Operation::Delete(id, condition) => {
                let preconditions = self.preconditions(*condition, *id);
                let outcome = repository.delete(*id, preconditions.clone()).await;
                if !self.plants.contains_key(id) {
                    return assert_refused(outcome, &StoreError::NoSuchPlant(*id));
                }
                if let Some(refusal) = self.refusal(&preconditions, *id) {
                    return assert_refused(outcome, &refusal);
                }
                outcome.expect("a removal is carried out");
                self.plants.remove(id);
                self.new_events.push((EventKind::Deleted, *id, None));
            }
            Operation::Import(new_plants, on_conflict) => {
                let outcome = repository.import(new_plants.clone(), *on_conflict, None).await;
                let outcome = outcome.expect("an import is carried out");
                assert_eq!(outcome.len(), new_plants.len());
                for (new_plant, imported) in new_plants.iter().zip(outcome) {
                    let is_free = !self.plants.contains_key(&new_plant.id());
                    let expected = match on_conflict {
                        _ if is_free => Imported::Created,
                        OnConflict::Error => Imported::IdTaken,
                        OnConflict::Skip => Imported::Skipped,
                        OnConflict::Replace => Imported::Replaced,
                    };
                    assert_eq!(imported, expected, "{new_plant:?}");
                    if matches!(imported, Imported::Created | Imported::Replaced) {
                        self.store(new_plant.clone(), None, None);
                    }
                }
            }
            Operation::Resend | Operation::Reopen | Operation::Kill => {}
        }
    }

    /// Stores a plant, with the digest of its create. `shown` is the plant in the outcome.
    fn store(
        &mut self,
        new_plant: NewPlant,
        digest: Option<IdempotencyDigest>,
        shown: Option<StoredPlant>,
    ) {
        let revision = shown.as_ref().map(|shown| shown.revision);
        let shown = shown.map(StoredPlant::into_new_plant);
        assert!(shown.is_none_or(|shown| shown == new_plant), "{new_plant:?} is shown otherwise");
        let (id, plant) = new_plant.into_parts();
        let (kind, digest) = match self.plants.get(&id) {
            Some((present, _)) if present.plant == plant => {
                let is_kept = revision.is_none_or(|revision| revision == present.revision);
                return assert!(is_kept, "what changes nothing keeps the revision");
            }
            Some((_, digest)) => (EventKind::Updated, *digest),
            None => (EventKind::Created, digest),
        };
        self.new_events.push((kind, id, revision));
        let revision = revision.unwrap_or(Revision::BEFORE_ALL);
        self.plants.insert(id, (StoredPlant { id, plant, revision }, digest));
    }

    /// Compares the new events with the last operation. Takes the revisions of an import from the events.
    async fn check_new_events(&mut self, repository: &dyn PlantRepository) {
        let begun = SystemTime::now();
        let new = repository.events(self.after(&self.events), 1_000).await.expect("reads").events;
        assert_eq!(new.len(), self.new_events.len(), "{new:?}");
        for (event, (kind, id, revision)) in new.into_iter().zip(self.new_events.drain(..)) {
            assert_eq!((event.kind, event.id), (kind, id));
            assert!(revision.is_none_or(|revision| revision == event.revision()), "{event:?}");
            let last = self.events.last();
            assert!(last.is_none_or(|last| last.revision() < event.revision()), "{event:?}");
            let age = begun.duration_since(event.at).unwrap_or_default();
            assert!(age < DEADLINE, "the time of {event:?} is wrong");
            if let Some((stored, _)) = self.plants.get_mut(&id) {
                stored.revision = event.revision();
            }
            self.events.push(event);
        }
    }

    fn preconditions(&self, condition: Condition, id: PlantId) -> Preconditions {
        let Some((header, revisions)) = condition else { return Preconditions::default() };
        let current = || self.plants.get(&id).map(|(stored, _)| stored.revision);
        let revisions = Some(match revisions {
            KnownLater::Current => Revisions::OneOf(current().into_iter().collect()),
            KnownLater::Other => Revisions::OneOf(vec![Revision::from(u64::MAX)]),
            KnownLater::Any => Revisions::Any,
        });
        match header {
            Precondition::IfMatch => Preconditions { if_match: revisions, if_none_match: None },
            Precondition::IfNoneMatch => Preconditions { if_match: None, if_none_match: revisions },
        }
    }

    /// The error if the plant, or its absence, does not meet a precondition.
    fn refusal(&self, preconditions: &Preconditions, id: PlantId) -> Option<StoreError> {
        let current = self.plants.get(&id).map(|(stored, _)| stored.revision);
        preconditions.check(current).err().map(StoreError::PreconditionFailed)
    }

    /// Compares everything readable with the model.
    async fn check_everything(&self, repository: &Arc<dyn PlantRepository>, kept: KeptEvents) {
        assert_eq!(repository.count(None).await.expect("counts"), self.plants.len() as u64);
        self.check_tags(repository).await;
        for id in IDS.map(PlantId::from) {
            let read = repository.get(id).await.expect("reads");
            assert_eq!(read.as_ref(), self.plants.get(&id).map(|(stored, _)| stored));
        }
        let of_plants = self.plants.values().map(|(stored, _)| stored.plant.tag());
        let tags: BTreeSet<Option<&str>> = of_plants.chain(TAGS.map(Some)).chain([None]).collect();
        for tag in tags {
            for name in NAME_PARTS.map(Some).into_iter().chain([None]) {
                self.check_list(repository, name, tag).await;
            }
        }
        self.check_events(&**repository, kept).await;
    }

    async fn check_tags(&self, repository: &Arc<dyn PlantRepository>) {
        let mut counts = BTreeMap::<String, u64>::new();
        for tag in self.plants.values().filter_map(|(stored, _)| stored.plant.tag()) {
            *counts.entry(tag.to_owned()).or_default() += 1;
        }
        for tag in counts.keys().map(String::as_str).chain(TAGS) {
            let count = repository.count(Some(tag)).await.expect("counts");
            assert_eq!(count, counts.get(tag).copied().unwrap_or_default(), "{tag:?}");
        }
        for prefix in TAGS.into_iter().chain([""]) {
            let with_prefix = counts.iter().filter(|(tag, _)| tag.starts_with(prefix));
            let with_prefix = with_prefix.map(|(tag, plants)| (tag.clone(), *plants)).collect();
            assert_eq!(all_tags(repository, prefix, 3).await, with_prefix, "{prefix:?}");
        }
    }

    async fn check_list(
        &self,
        repository: &Arc<dyn PlantRepository>,
        name: Option<&str>,
        tag: Option<&str>,
    ) {
        let filter = PlantFilter::new(name, tag.map(str::to_owned));
        let filter = filter.expect("the model's filters are valid");
        let plants = self.plants.values().map(|(stored, _)| stored.clone());
        let expected: Vec<StoredPlant> = plants
            .filter(|stored| filter.matches(stored.plant.name(), stored.plant.tag()))
            .collect();
        assert_eq!(all_pages(repository, &filter, 3).await, expected, "{filter:?}");
    }

    /// The position after these events, which are the first ones.
    fn after(&self, events: &[Event]) -> EventsAfter {
        let last = events.last().map(|event| event.cursor).or(self.start);
        EventsAfter::Cursor(last.expect("the store was opened"))
    }

    /// Checks that the newest events are kept, and that older ones are forgotten if they must be.
    async fn check_events(&self, repository: &dyn PlantRepository, kept_events: KeptEvents) {
        let (KeptEvents::Exactly(keep_events) | KeptEvents::AtLeast(keep_events)) = kept_events;
        let forgotten = self.events.len().saturating_sub(keep_events);
        let (forgotten, kept) = self.events.split_at(forgotten);
        let mut next = self.after(forgotten);
        for newest in kept.chunks(4) {
            let page = repository.events(next, 4).await.expect("they are kept");
            assert_eq!(page.events, newest);
            next = EventsAfter::Cursor(page.next);
        }
        let end = repository.events(next, 4).await.expect("they are kept");
        let newest = repository.newest_event().await.expect("reads");
        assert_eq!(end, EventPage { events: Vec::new(), next: newest });

        let oldest = repository.events(EventsAfter::Oldest, self.events.len() + 1).await;
        let oldest = oldest.expect("the oldest are kept").events;
        match kept_events {
            KeptEvents::Exactly(_) => assert_eq!(oldest, kept),
            KeptEvents::AtLeast(_) => assert!(oldest.ends_with(kept), "{oldest:?}"),
        }
        if let Some(last_forgotten) = forgotten.len().checked_sub(1) {
            let page = repository.events(self.after(&forgotten[..last_forgotten]), 1).await;
            match (page, kept_events) {
                (Err(StoreError::EventsGone), _) => {}
                (Ok(page), KeptEvents::AtLeast(_)) => {
                    assert_eq!(page.events, self.events[last_forgotten..=last_forgotten]);
                }
                (shown, _) => panic!("{shown:?} should be forgotten"),
            }
        }
        let oldest = forgotten.last().map_or(newest, |event| event.cursor);
        for foreign in [
            EventCursor { log: oldest.log ^ 1, ..oldest },
            EventCursor { log: newest.log ^ 1, ..newest },
            EventCursor { revision: Revision::from(newest.revision.get() + 1), ..newest },
            EventCursor { revision: Revision::from(u64::MAX), ..newest },
        ] {
            let page = repository.events(EventsAfter::Cursor(foreign), 1).await;
            assert!(matches!(page, Err(StoreError::EventsGone)), "{foreign}: {page:?}");
        }
    }
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, expected: &StoreError) {
    let refusal = outcome.map(drop).expect_err("it must be refused");
    assert_eq!(format!("{refusal:?}"), format!("{expected:?}"));
}
