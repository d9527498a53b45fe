//! Random operations on few plants.

use plant_domain::{NewPlant, Plant, PlantId, PlantPatch, TextPatch};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use crate::write::Write;
use crate::{
    Author, IdempotencyDigest, OnConflict, Precondition, Preconditions, Revision, Revisions,
};

/// Few ids, so that operations often hit the same plant.
pub(super) const IDS: [i64; 8] = [i64::MIN, -2, -1, 0, 1, 2, 3, i64::MAX];
const NAMES: [&str; 5] = ["Rosa", "ROSA ×", " rosa 'alba'", "Straße", "\u{200b}🌱"];
/// Two that names contain only when both are folded, one that no name contains, and short ones.
pub(super) const NAME_PARTS: [&str; 6] = ["RoSa ", "STRASSE", "rosen", "ss", "×", "🌱"];
/// Some are prefixes of others, or differ only in case or white space. The last three take two to four bytes in UTF-8.
pub(super) const TAGS: [&str; 6] = ["R", "r", "R ", "é", "木", "🌱"];

/// Random operations on a repository.
#[derive(Clone, Debug)]
pub struct Operations(pub(super) Vec<Operation>);

#[derive(Clone, Debug)]
pub(super) enum Operation {
    Write(PlannedWrite, Option<Author>),
    /// A batch, with an idempotency key if it has one.
    Batch(Vec<PlannedWrite>, Option<Author>, Option<&'static str>),
    /// Sends the last create or batch with a key again.
    Resend,
    Import(Vec<NewPlant>, OnConflict, Option<Author>),
    /// Closes the repository, and opens it again.
    Reopen,
    /// Calls [`StoreUnderTest::kill`](super::super::StoreUnderTest::kill), and opens the repository again.
    Kill,
    /// Calls [`StoreUnderTest::restore`](super::super::StoreUnderTest::restore), and opens the repository again.
    Restore,
}

/// A write whose conditions are not known yet.
#[derive(Clone, Debug)]
pub(super) enum PlannedWrite {
    Create(NewPlant, Option<&'static str>),
    Put(NewPlant, Condition),
    Patch(PlantId, PlantPatch, Condition),
    Delete(PlantId, Condition),
}

/// A precondition and its revisions, which depend on the plant's revision at the time.
type Condition = Option<(Precondition, KnownLater)>;

#[derive(Clone, Copy, Debug)]
pub(super) enum KnownLater {
    /// The plant's revision; none if there is no plant.
    Current,
    /// A revision that no plant has.
    Other,
    Any,
}

impl PlannedWrite {
    /// The write of a client that has read the `current` revisions.
    pub(super) fn to_write(&self, current: impl Fn(PlantId) -> Option<Revision>) -> Write {
        match self.clone() {
            Self::Create(new_plant, key) => {
                let digest = key.map(|key| IdempotencyDigest::new(key, &new_plant));
                Write::Create(new_plant, digest)
            }
            Self::Put(new_plant, condition) => {
                let preconditions = preconditions(condition, current(new_plant.id()));
                Write::Put(new_plant, preconditions)
            }
            Self::Patch(id, patch, condition) => {
                Write::Patch(id, patch, preconditions(condition, current(id)))
            }
            Self::Delete(id, condition) => Write::Delete(id, preconditions(condition, current(id))),
        }
    }
}

fn preconditions(condition: Condition, current: Option<Revision>) -> Preconditions {
    let Some((header, revisions)) = condition else { return Preconditions::default() };
    let revisions = Some(match revisions {
        KnownLater::Current => Revisions::OneOf(current.into_iter().collect()),
        KnownLater::Other => Revisions::OneOf(vec![Revision::from(u64::MAX)]),
        KnownLater::Any => Revisions::Any,
    });
    match header {
        Precondition::IfMatch => Preconditions { if_match: revisions, if_none_match: None },
        Precondition::IfNoneMatch => Preconditions { if_match: None, if_none_match: revisions },
    }
}

/// Up to `length` random operations.
pub fn operations(length: usize) -> impl Strategy<Value = Operations> {
    vec(operation(), 1..=length).prop_map(Operations)
}

fn operation() -> impl Strategy<Value = Operation> {
    let on_conflict = || select(vec![OnConflict::Error, OnConflict::Skip, OnConflict::Replace]);
    prop_oneof![
        24 => (planned_write(), author()).prop_map(|(write, by)| Operation::Write(write, by)),
        // Long batches of any writes would almost always be refused.
        6 => (vec(planned_write(), 0..4), author(), key())
            .prop_map(|(writes, by, key)| Operation::Batch(writes, by, key)),
        4 => (vec(rarely_refused_write(), 0..12), author(), key())
            .prop_map(|(writes, by, key)| Operation::Batch(writes, by, key)),
        4 => Just(Operation::Resend),
        3 => (vec(new_plant(), 0..8), on_conflict(), author())
            .prop_map(|(plants, on_conflict, by)| Operation::Import(plants, on_conflict, by)),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Kill),
        1 => Just(Operation::Restore),
    ]
}

fn planned_write() -> impl Strategy<Value = PlannedWrite> {
    prop_oneof![
        (new_plant(), key()).prop_map(|(plant, key)| PlannedWrite::Create(plant, key)),
        (new_plant(), condition()).prop_map(|(plant, when)| PlannedWrite::Put(plant, when)),
        (id(), patch(), condition())
            .prop_map(|(id, patch, when)| PlannedWrite::Patch(id, patch, when)),
        (id(), condition()).prop_map(|(id, when)| PlannedWrite::Delete(id, when)),
    ]
}

fn rarely_refused_write() -> impl Strategy<Value = PlannedWrite> {
    prop_oneof![
        8 => new_plant().prop_map(|plant| PlannedWrite::Put(plant, None)),
        2 => (id(), patch()).prop_map(|(id, patch)| PlannedWrite::Patch(id, patch, None)),
        1 => planned_write(),
    ]
}

fn id() -> impl Strategy<Value = PlantId> {
    select(&IDS[..]).prop_map(PlantId::from)
}

fn key() -> impl Strategy<Value = Option<&'static str>> {
    option::of(select(vec!["key", "other key"]))
}

fn author() -> impl Strategy<Value = Option<Author>> {
    let author = |name| Author::new(name).expect("the model's authors are valid");
    option::of(select(vec!["app", "木"]).prop_map(author))
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
        Just(TextPatch::Keep),
        Just(TextPatch::Remove),
        text(&TAGS).prop_map(TextPatch::Set),
    ];
    (option::of(text(&NAMES)), tag)
        .prop_map(|(name, tag)| PlantPatch::new(name, tag).expect("the model's patches are valid"))
}

fn condition() -> impl Strategy<Value = Condition> {
    let header = select(&[Precondition::IfMatch, Precondition::IfNoneMatch][..]);
    let revisions = select(&[KnownLater::Current, KnownLater::Other, KnownLater::Any][..]);
    option::of((header, revisions))
}
