//! One group of writes: what it makes of the plants, and how it comes to the disk.
//!
//! 1. The plants that are to be changed are read, and the writes are decided in turn. A create counts on its id being
//!    free, and reads nothing.
//! 2. The group gets a block of revisions, which is greater than all that were used for what it has read.
//! 3. In one transaction the rows are written, each if it is as it was read; then the events, in the row of the block,
//!    and the counts. Writes whose row has become another one are tried again, the others are committed.
//!
//! The row of the block is what decides. Where nobody knows what became of a commit, that row is written by one who
//! wants to know: either it is there already, and so is all of the group, or the group can never be committed any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use futures_util::future::join3;
use plant_domain::{PlantId, fold_name};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use super::sessions::{Session, Sessions, Trouble};
use super::statements::{EVENTS_IN_A_BLOCK, Statements};
use crate::plant_record::{PlantRecord, Record};
use crate::write::{Decided, Decision, Outcome, Write};
use crate::{EventKind, IdempotencyDigest, StoreError, StoreFailure};

/// How many writes a group has at most.
pub(super) const MAX_GROUP: usize = 512;

/// For how long a group is tried again, counted from its first try.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// For how long it is tried to find out what became of a group. It is counted from when that was lost.
const RESOLVE_PATIENCE: Duration = Duration::from_secs(20);

/// How long one waits before the next try, in milliseconds. It is another time for each, lest they meet again.
const PAUSE_MS: Range<u64> = 2..40;

/// Brings groups of writes to the disk.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) sessions: Sessions,
    pub(super) statements: Arc<Statements>,
    /// The row of the counters that it adds to.
    pub(super) slot: i32,
}

/// What there is of a plant.
#[derive(Clone, Debug, Default)]
struct Present {
    /// The revision in the row, if there is one. A plant that was removed has one too.
    revision: Option<i64>,
    record: Option<Record>,
}

/// Writes that are carried out together.
struct Group<'w> {
    writes: &'w [Write],
    /// What is decided of each write, and on the disk as far as it changes something.
    decided: Vec<Option<Result<Decided, StoreError>>>,
    /// The plants that have to be read before anything is decided of them.
    to_read: BTreeSet<PlantId>,
    present: HashMap<PlantId, Present>,
}

/// What a group would make of its plants.
struct Plan {
    /// What is decided of writes, by their place in the group.
    decided: Vec<(usize, Result<Decided, StoreError>)>,
    rows: BTreeMap<PlantId, PlannedRow>,
    events: Vec<PlannedEvent>,
}

struct PlannedRow {
    before: Present,
    after: Option<Record>,
    revision: i64,
}

struct PlannedEvent {
    revision: i64,
    kind: EventKind,
    id: PlantId,
}

/// Why a try did not lead to the end.
enum Failed {
    /// Nothing was written.
    WithoutTrace(Trouble),
    /// Nobody knows what was written.
    Unknown(Trouble),
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        Self::WithoutTrace(trouble)
    }
}

impl Writer {
    /// Carries out writes that nobody has put in an order, and says of each what became of it. However things stand, it
    /// comes to an end.
    pub(super) async fn carry_out(&self, writes: Vec<Write>) -> Vec<Outcome> {
        let needs_a_look = |write: &&Write| !matches!(write, Write::Create { .. });
        let to_read = writes.iter().filter(needs_a_look).map(Write::id).collect();
        self.carry_out_after_reading(to_read, writes).await
    }

    /// As [`Self::carry_out`], each after those before it, unless somebody else changes the same plants meanwhile.
    pub(super) async fn carry_out_in_turn(&self, writes: Vec<Write>) -> Vec<Outcome> {
        self.carry_out_after_reading(writes.iter().map(Write::id).collect(), writes).await
    }

    async fn carry_out_after_reading(
        &self,
        to_read: BTreeSet<PlantId>,
        writes: Vec<Write>,
    ) -> Vec<Outcome> {
        let mut group = Group::new(&writes, to_read);
        let begun = Instant::now();
        let mut given_up = None;
        while given_up.is_none() && !group.is_done() {
            let Err(failed) = self.try_once(&mut group).await else { continue };
            given_up = match failed {
                Failed::WithoutTrace(Trouble::Refused(cause)) => {
                    let failure = StoreFailure::from(anyhow!(cause));
                    log::error!("writes failed, and none of them was carried out: {failure}");
                    Some(StoreError::from(failure))
                }
                Failed::WithoutTrace(trouble) if begun.elapsed() > PATIENCE => {
                    log::warn!("writes are given up, and none of them was carried out: {trouble}");
                    Some(StoreError::Busy)
                }
                Failed::WithoutTrace(_) => {
                    pause().await;
                    None
                }
                Failed::Unknown(trouble) => {
                    let failure = StoreFailure::from(anyhow::Error::from(trouble));
                    log::error!("what became of writes is not known: {failure}");
                    Some(StoreError::from(failure))
                }
            };
        }
        let decided = group.decided;
        let given_up = given_up.unwrap_or(StoreError::Busy);
        let outcome = |(write, decided): (Write, Option<Result<Decided, StoreError>>)| match decided
        {
            Some(decided) => decided.map(|decided| write.written(decided)),
            None => Err(given_up.clone()),
        };
        writes.into_iter().zip(decided).map(outcome).collect()
    }

    /// Carries out those that are not carried out yet, but for those whose plant somebody else changes meanwhile.
    async fn try_once(&self, group: &mut Group<'_>) -> Result<(), Failed> {
        let session = self.sessions.get().await?;
        group.read(&session, &self.statements).await?;
        // What changes nothing needs no revision.
        let plan = group.plan(0)?;
        if plan.rows.is_empty() {
            group.accept(plan, &BTreeSet::new());
            return Ok(());
        }
        let block = session.rows(&self.statements.next_block, &[]).await?;
        let block: i64 = first_column(&block)?;
        let plan = group.plan(block * EVENTS_IN_A_BLOCK)?;
        let written = match self.write_rows(&session, &plan).await {
            Ok(written) => written,
            Err(trouble) => {
                session.roll_back().await;
                return Err(trouble.into());
            }
        };
        match self.commit(&session, block, &plan, &written).await {
            Ok(()) => {}
            Err(trouble @ Trouble::NoAnswer(_)) => {
                drop(session);
                if !self.is_committed(block).await.map_err(Failed::Unknown)? {
                    return Err(trouble.into());
                }
            }
            Err(trouble) => {
                session.roll_back().await;
                return Err(trouble.into());
            }
        }
        group.accept(plan, &written);
        Ok(())
    }

    /// Begins a transaction with the rows that are still as they were read, and returns the ids of these.
    async fn write_rows(
        &self,
        session: &Session,
        plan: &Plan,
    ) -> Result<BTreeSet<PlantId>, Trouble> {
        let [mut new, mut changed] = [Columns::default(), Columns::default()];
        for (id, row) in &plan.rows {
            let columns = if row.before.revision.is_some() { &mut changed } else { &mut new };
            columns.push(*id, row).map_err(refused)?;
        }
        let (new, changed, client) = (&new, &changed, session.client()?);
        let (inserted, updated) = session
            .answer(async {
                let insert = client.prepare_cached(&self.statements.insert_plants).await?;
                let update = client.prepare_cached(&self.statements.update_plants).await?;
                let insert = async {
                    if new.ids.is_empty() {
                        return Ok(Vec::new());
                    }
                    let Columns { ids, revisions, names, folded_names, tags, idempotency, .. } =
                        new;
                    client
                        .query(&insert, &[ids, revisions, names, folded_names, tags, idempotency])
                        .await
                };
                let update = async {
                    if changed.ids.is_empty() {
                        return Ok(Vec::new());
                    }
                    let Columns {
                        ids,
                        revisions,
                        names,
                        folded_names,
                        tags,
                        idempotency,
                        expected,
                    } = changed;
                    client
                        .query(
                            &update,
                            &[ids, revisions, names, folded_names, tags, idempotency, expected],
                        )
                        .await
                };
                let (begun, inserted, updated) =
                    join3(client.batch_execute("BEGIN"), insert, update).await;
                begun?;
                Ok((inserted?, updated?))
            })
            .await?;
        let ids =
            inserted.iter().chain(&updated).map(|row| Ok(PlantId::from(row.try_get::<_, i64>(0)?)));
        ids.collect::<Result<_, tokio_postgres::Error>>().map_err(Trouble::from)
    }

    /// Writes what tells of the rows that were written, and commits.
    async fn commit(
        &self,
        session: &Session,
        block: i64,
        plan: &Plan,
        written: &BTreeSet<PlantId>,
    ) -> Result<(), Trouble> {
        let events = || plan.events.iter().filter(|event| written.contains(&event.id));
        let revisions: Vec<i64> = events().map(|event| event.revision).collect();
        let kinds: Vec<i16> = events().map(|event| kind_number(event.kind)).collect();
        let ids: Vec<i64> = events().map(|event| event.id.get()).collect();
        let rows = plan.rows.iter().filter(|(id, _)| written.contains(id));
        let more: i64 = rows
            .map(|(_, row)| i64::from(row.after.is_some()) - i64::from(row.before.record.is_some()))
            .sum();
        let client = session.client()?;
        let count = i64::try_from(ids.len()).unwrap_or(EVENTS_IN_A_BLOCK);
        session
            .answer(async {
                let insert = client.prepare_cached(&self.statements.insert_events).await?;
                let add = client.prepare_cached(&self.statements.add_to_counter).await?;
                let insert_parameters: [&(dyn ToSql + Sync); 4] =
                    [&block, &revisions, &kinds, &ids];
                let add_parameters: [&(dyn ToSql + Sync); 3] = [&self.slot, &more, &count];
                let (inserted, added, committed) = join3(
                    client.query(&insert, &insert_parameters),
                    client.query(&add, &add_parameters),
                    client.batch_execute("COMMIT"),
                )
                .await;
                // After an error, what is called a commit takes everything back.
                inserted?;
                added?;
                committed
            })
            .await
    }

    /// Finds out whether a group is committed, and sees to it that the answer stays true.
    async fn is_committed(&self, block: i64) -> Result<bool, Trouble> {
        let begun = Instant::now();
        loop {
            match self.seal(block).await {
                Err(trouble) if begun.elapsed() > RESOLVE_PATIENCE => return Err(trouble),
                Err(_) => pause().await,
                answer => return answer,
            }
        }
    }

    /// Commits a change that changes nothing: where that is done, other writes would be taken too.
    pub(super) async fn write_nothing(&self) -> Result<(), Trouble> {
        let session = self.sessions.get().await?;
        session.rows(&self.statements.touch_counter, &[&self.slot]).await?;
        Ok(())
    }

    /// Takes the place of the group's events, unless they are there. Whoever still has the group in a transaction is
    /// waited for.
    async fn seal(&self, block: i64) -> Result<bool, Trouble> {
        let session = self.sessions.get().await?;
        session.rows(&self.statements.seal_block, &[&block]).await?;
        let has_events =
            first_column(&session.rows(&self.statements.has_events, &[&block]).await?)?;
        if has_events {
            // It is visible, but where a standby has to have it too, nobody may have waited for that. Whoever commits
            // later waits for all that is before.
            session.rows(&self.statements.touch_counter, &[&self.slot]).await?;
        }
        Ok(has_events)
    }
}

/// The first column of the first row, which has to be there.
fn first_column<'a, T: FromSql<'a>>(rows: &'a [Row]) -> Result<T, Trouble> {
    let row = rows.first().ok_or_else(|| Trouble::Refused("a row is missing".to_owned()))?;
    Ok(row.try_get(0)?)
}

fn refused(cause: anyhow::Error) -> Trouble {
    Trouble::Refused(format!("{cause:#}"))
}

pub(super) async fn pause() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
}

/// How the kind of an event is kept.
const fn kind_number(kind: EventKind) -> i16 {
    match kind {
        EventKind::Created => 1,
        EventKind::Updated => 2,
        EventKind::Deleted => 3,
    }
}

/// The kind of an event that is kept so.
pub(super) fn kind_of(number: i16) -> anyhow::Result<EventKind> {
    [EventKind::Created, EventKind::Updated, EventKind::Deleted]
        .into_iter()
        .find(|kind| kind_number(*kind) == number)
        .with_context(|| format!("there is no kind of event {number}"))
}

impl<'w> Group<'w> {
    fn new(writes: &'w [Write], to_read: BTreeSet<PlantId>) -> Self {
        Self {
            writes,
            decided: writes.iter().map(|_| None).collect(),
            to_read,
            present: HashMap::new(),
        }
    }

    fn is_done(&self) -> bool {
        self.decided.iter().all(Option::is_some)
    }

    fn pending(&self) -> impl Iterator<Item = (usize, &'w Write)> {
        let writes = self.writes.iter().enumerate();
        writes.filter(|(place, _)| self.decided[*place].is_none())
    }

    /// Reads the plants that nothing may be counted on of.
    async fn read(&mut self, session: &Session, statements: &Statements) -> Result<(), Trouble> {
        self.present.clear();
        let ids: BTreeSet<i64> = self
            .pending()
            .map(|(_, write)| write.id())
            .filter(|id| self.to_read.contains(id))
            .map(PlantId::get)
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = ids.into_iter().collect();
        for row in session.rows(&statements.plants_with_ids, &[&ids]).await? {
            let (id, present) = Present::of_row(&row).map_err(refused)?;
            self.present.insert(id, present);
        }
        Ok(())
    }

    /// Decides the writes in turn, each as it finds the plants after those before it.
    fn plan(&self, first_revision: i64) -> Result<Plan, Trouble> {
        let mut plan = Plan { decided: Vec::new(), rows: BTreeMap::new(), events: Vec::new() };
        let mut revision = first_revision;
        for (place, write) in self.pending() {
            let id = write.id();
            let row = plan.rows.get(&id);
            let present = self.present.get(&id);
            let current = match row {
                Some(row) => row.after.as_ref(),
                None => present.and_then(|present| present.record.as_ref()),
            };
            let decision = write.decide(current, revision.cast_unsigned());
            let decision =
                decision.with_context(|| format!("plant {id} is damaged")).map_err(refused)?;
            let Decision { decided, change_to } = match decision {
                Ok(decision) => decision,
                Err(refusal) => {
                    plan.decided.push((place, Err(refusal)));
                    continue;
                }
            };
            if let (Some(after), Some(kind)) = (change_to, decided.kind()) {
                plan.events.push(PlannedEvent { revision, kind, id });
                let row = plan.rows.entry(id).or_insert_with(|| PlannedRow {
                    before: present.cloned().unwrap_or_default(),
                    after: None,
                    revision,
                });
                (row.after, row.revision) = (after, revision);
                revision += 1;
            }
            plan.decided.push((place, Ok(decided)));
        }
        let is_ahead =
            |row: &&PlannedRow| row.before.revision.is_none_or(|before| before < first_revision);
        if first_revision > 0 && !plan.rows.values().all(|row| is_ahead(&row)) {
            return Err(Trouble::Conflict(
                "the sequence gives numbers in another order".to_owned(),
            ));
        }
        Ok(plan)
    }

    /// What was planned is done, but for plants whose rows are not among those that were written.
    fn accept(&mut self, plan: Plan, written: &BTreeSet<PlantId>) {
        let Plan { decided, rows, .. } = plan;
        for (place, decided) in decided {
            let id = self.writes[place].id();
            if rows.contains_key(&id) && !written.contains(&id) {
                self.to_read.insert(id);
            } else {
                self.decided[place] = Some(decided);
            }
        }
    }
}

impl Present {
    fn of_row(row: &Row) -> anyhow::Result<(PlantId, Self)> {
        let (id, revision): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let (name, tag): (Option<&str>, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
        let idempotency: Option<&[u8]> = row.try_get(4)?;
        let to_record = |name| {
            let idempotency =
                idempotency.map(<[u8; IdempotencyDigest::BYTES]>::try_from).transpose()?;
            PlantRecord { revision: revision.cast_unsigned(), idempotency, name, tag }.encode()
        };
        let record =
            name.map(to_record).transpose().with_context(|| format!("the row of plant {id}"))?;
        Ok((PlantId::from(id), Self { revision: Some(revision), record }))
    }
}

/// Rows, each column on its own.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<i64>,
    revisions: Vec<i64>,
    names: Vec<Option<&'a str>>,
    folded_names: Vec<Option<String>>,
    tags: Vec<Option<&'a str>>,
    idempotency: Vec<Option<Vec<u8>>>,
    /// The revisions that the rows must have.
    expected: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, id: PlantId, row: &'a PlannedRow) -> anyhow::Result<()> {
        let after = row.after.as_ref().map(Record::decode).transpose()?;
        self.ids.push(id.get());
        self.revisions.push(row.revision);
        self.names.push(after.map(|after| after.name));
        self.folded_names.push(after.map(|after| fold_name(after.name)));
        self.tags.push(after.and_then(|after| after.tag));
        self.idempotency.push(after.and_then(|after| after.idempotency).map(Vec::from));
        self.expected.push(row.before.revision);
        Ok(())
    }
}
