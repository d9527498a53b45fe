//! One group of writes: what it makes of the plants, and how it comes to the disk.
//!
//! 1. The plants that are to be changed are read, and the writes are decided in turn. A create counts on its id being
//!    free, and reads nothing, unless another one was wrong about that a moment ago.
//! 2. One transaction, which goes to PostgreSQL as a whole, gets a block of revisions, greater than all that were used
//!    for what was read; writes the rows, each if it is as it was read; then the events of those that it has written,
//!    in the row of the block; and counts them. Where all rows are new, that is one statement, which fails as a whole
//!    where one of them is there already.
//! 3. Writes whose row has become another one are tried again, after a look at it.
//! 4. Where PostgreSQL refuses the group, the group is halved until the refused write stands alone. Where no other part
//!    of it was carried out meanwhile, the writer [rehearses](Writer::rehearse) the same statements with the
//!    plants that were written last. Where that fails too, PostgreSQL takes no writes now, and the whole group is given up.
//!
//! Every group has a random id, which stands in the row of its block. Where nobody knows what became of a commit, the
//! writer inserts a row with the same id: either one is there already, and so is all of the group, or the group can
//! never be committed any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use futures_util::future::{join, join3};
use plant_domain::{Plant, PlantId, fold_name};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryMessage};

use crate::reader::LATE_COMMIT_PATIENCE;
use crate::schema::COUNTER_SLOTS;
use crate::sessions::{PATIENCE, Session, Sessions, Trouble, pause};
use crate::statements::{EVENTS_IN_A_BLOCK, Statements, kind_number};
use crate::write_health::{READY_WITHIN, WriteHealth};
use plant_store::decision::{Decision, KeptPlant, Write};
use plant_store::{EventKind, IdempotencyDigest, Revision, StoreError, StoreFailure, StoredPlant};

/// How many writes a group has at most.
pub(super) const MAX_GROUP: usize = 512;
const _: () = assert!(MAX_GROUP as u64 <= EVENTS_IN_A_BLOCK.unsigned_abs());

/// How long the writer tries to find out what became of a group, counted from when that was lost.
const FINDING_PATIENCE: Duration = Duration::from_secs(20);

/// Where the revisions begin that a group plans with before it has any. No real one is so great.
const PLANNED_REVISIONS: u64 = 1 << 62;

/// How many groups read what they create too after one of nothing but creates was taken back, mostly for an id that is
/// taken (a plant that was removed has its row too). A client that creates what is there often does so many times, and a
/// statement that fails leaves rows for PostgreSQL to clear away.
const GROUPS_OF_DOUBT: u32 = 100;

/// How many bytes the random id of a group has.
const GROUP_ID_BYTES: usize = 16;

/// Brings groups of writes to the disk.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) sessions: Sessions,
    pub(super) statements: Arc<Statements>,
    /// A block that is committed: groups that begin later have later ones.
    pub(super) last_block: Arc<AtomicI64>,
    /// How many of the next groups count on no id being free.
    pub(super) doubt: Arc<AtomicU32>,
    pub(super) health: Arc<WriteHealth>,
}

/// Takes the outcome of the write at a place in its group, as soon as it is known.
pub(super) type Answer<'a> = &'a mut (dyn FnMut(usize, Result<Decision, StoreError>) + Send);

/// What there is of a plant.
#[derive(Clone, Debug, Default)]
struct Present {
    /// The revision in the row, if there is one. A plant that was removed has one too.
    revision: Option<i64>,
    plant: Option<KeptPlant>,
}

/// Writes that are carried out together.
struct WriteGroup<'a> {
    /// Those that have no answer yet, each at its place.
    writes: Vec<Option<Write>>,
    answer: Answer<'a>,
    /// The places that are tried now.
    part: Range<usize>,
    /// The plants that have to be read before anything is decided of them.
    to_read: BTreeSet<PlantId>,
    present: HashMap<PlantId, Present>,
    /// The revisions of rows that were expected and not found.
    not_found: HashMap<PlantId, Option<i64>>,
    /// When it was begun, or a write had its answer last.
    last_answer: Instant,
    /// Since something of it was refused: whether other writes were carried out after that.
    others_are_taken: Option<bool>,
}

/// What a group would make of its plants.
struct Plan {
    /// What is decided of writes, by their place in the group.
    decided: Vec<(usize, Result<Decision, StoreError>)>,
    rows: BTreeMap<PlantId, PlannedRow>,
    events: Vec<PlannedEvent>,
}

struct PlannedRow {
    before: Present,
    after: Option<KeptPlant>,
    /// Its place among the revisions of the block.
    number: i64,
}

struct PlannedEvent {
    number: i64,
    kind: EventKind,
    id: PlantId,
}

/// What is committed of a group.
struct Committed {
    block: i64,
    /// The plants whose rows were written.
    written: BTreeSet<PlantId>,
}

/// Why a part of a group is not tried again.
enum GivenUp {
    /// PostgreSQL refuses something of this part, and takes other writes.
    Refused(StoreFailure),
    /// No part of the group can be carried out.
    All(StoreError),
}

/// Why a try did not lead to the end.
enum Failed {
    /// It wrote nothing.
    WithoutTrace(Trouble),
    /// Nobody knows what it wrote.
    Unknown(Trouble),
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        Self::WithoutTrace(trouble)
    }
}

impl Writer {
    /// Carries out writes that nobody has put in an order, and answers each. It always ends: after a while it gives up
    /// what cannot be done.
    pub(super) async fn carry_out(&self, writes: Vec<Write>, answer: Answer<'_>) {
        let less = |doubt: u32| doubt.checked_sub(1);
        let is_in_doubt =
            self.doubt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        let needs_a_look = |write: &&Write| is_in_doubt || !matches!(write, Write::Create { .. });
        let to_read = writes.iter().filter(needs_a_look).map(Write::id).collect();
        self.carry_out_group(WriteGroup::new(writes, to_read, answer)).await;
    }

    /// As [`Self::carry_out`], each after those before it, unless somebody else changes the same plants meanwhile. Returns
    /// the outcomes.
    pub(super) async fn carry_out_in_turn(
        &self,
        writes: Vec<Write>,
    ) -> Vec<Result<Decision, StoreError>> {
        let mut outcomes: Vec<Option<Result<Decision, StoreError>>> =
            writes.iter().map(|_| None).collect();
        let to_read = writes.iter().map(Write::id).collect();
        let mut answer = |place: usize, outcome| outcomes[place] = Some(outcome);
        self.carry_out_group(WriteGroup::new(writes, to_read, &mut answer)).await;
        // Each has its answer.
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(StoreError::Busy))).collect()
    }

    async fn carry_out_group(&self, mut group: WriteGroup<'_>) {
        // The first part stands last.
        let mut parts = vec![group.part.clone()];
        while let Some(part) = parts.pop() {
            group.part = part;
            match self.carry_out_part(&mut group).await {
                Ok(()) => {}
                Err(GivenUp::Refused(cause)) => match group.halves() {
                    Some([first, second]) => parts.extend([second, first]),
                    None => {
                        group.pending().for_each(|(_, write)| self.health.note_refused(write.id()));
                        group.answer_pending(&StoreError::Refused(cause));
                    }
                },
                Err(GivenUp::All(error)) => {
                    group.answer_pending(&error);
                    // Of the other parts, nothing was sent.
                    let error = match error {
                        StoreError::Failed(cause) => StoreError::Unavailable(cause),
                        error => error,
                    };
                    for part in parts.drain(..) {
                        group.part = part;
                        group.answer_pending(&error);
                    }
                }
            }
        }
    }

    /// Carries out one part of a group, and tries again for a while what fails for now.
    async fn carry_out_part(&self, group: &mut WriteGroup<'_>) -> Result<(), GivenUp> {
        let (mut tries, mut was_stale) = (0, false);
        loop {
            let has_counted_on_ids = group.counts_on_ids();
            let mut failed = match self.try_once(group).await {
                Ok(()) if group.is_done() => return Ok(()),
                Ok(()) => Failed::WithoutTrace(Trouble::Conflict(
                    "others change the same plants".to_owned(),
                )),
                Err(failed) => {
                    // It may be that an id is taken, also by somebody else meanwhile.
                    group.read_all_next_time();
                    failed
                }
            };
            match failed {
                Failed::WithoutTrace(Trouble::StaleStatement(_)) if !was_stale => {
                    was_stale = true;
                    continue;
                }
                Failed::WithoutTrace(Trouble::Refused(said) | Trouble::StaleStatement(said)) => {
                    let cause = StoreFailure::new(anyhow!(Trouble::Refused(said)));
                    let others_are_taken = *group.others_are_taken.get_or_insert(false);
                    // Parts of it that are carried out show as well that it is no matter of all writes.
                    if others_are_taken || group.halves().is_some() {
                        return Err(GivenUp::Refused(cause));
                    }
                    match self.rehearse(&group.pending_ids()).await {
                        // One more try tells whether that is still so.
                        Ok(()) => {
                            group.others_are_taken = Some(true);
                            continue;
                        }
                        Err(Trouble::Refused(_) | Trouble::StaleStatement(_)) => {
                            self.health.note_no_writes(&cause);
                            return Err(GivenUp::All(StoreError::Unavailable(cause)));
                        }
                        Err(trouble) => failed = Failed::WithoutTrace(trouble),
                    }
                }
                _ => {}
            }
            match failed {
                // What was counted on is read now, which is an answer for whoever was wrong, and lets others through.
                Failed::WithoutTrace(Trouble::Conflict(_)) if has_counted_on_ids => {}
                Failed::WithoutTrace(trouble) if group.last_answer.elapsed() > PATIENCE => {
                    log::warn!("writes are given up, and were not carried out: {trouble}");
                    let takes_no_writes = match trouble {
                        // When the sequence is behind, every group conflicts with a block that is there already.
                        Trouble::Conflict(_) => {
                            let of_group = group.pending_ids();
                            let rehearsed = timeout(READY_WITHIN, self.rehearse(&of_group)).await;
                            !matches!(rehearsed, Ok(Ok(())))
                        }
                        ref trouble => matches!(trouble, Trouble::Unavailable(_)),
                    };
                    let is_conflict = matches!(trouble, Trouble::Conflict(_));
                    let cause = StoreFailure::new(anyhow!(trouble));
                    if takes_no_writes {
                        self.health.note_no_writes(&cause);
                    }
                    return Err(GivenUp::All(match is_conflict && !takes_no_writes {
                        true => StoreError::Busy,
                        false => StoreError::Unavailable(cause),
                    }));
                }
                Failed::WithoutTrace(_) => {
                    pause(tries).await;
                    tries += 1;
                }
                Failed::Unknown(trouble) => {
                    let failure = StoreFailure::new(anyhow!(trouble));
                    log::error!("what became of writes is not known: {failure}");
                    return Err(GivenUp::All(failure.into()));
                }
            }
        }
    }

    /// Carries out the pending writes, except where somebody else changes the plant meanwhile.
    async fn try_once(&self, group: &mut WriteGroup<'_>) -> Result<(), Failed> {
        let session = self.sessions.get().await?;
        group.read(&session, &self.statements).await?;
        let plan = group.plan()?;
        if plan.rows.is_empty() {
            if plan.decided.iter().any(|(_, decided)| decided.is_ok()) {
                self.wait_for_those_before(&session).await?;
            }
            group.accept(plan, &Committed { block: 0, written: BTreeSet::new() })?;
            return Ok(());
        }
        let group_id = random_group_id()?;
        let last_block = self.last_block.load(Ordering::Relaxed);
        let warnings = self.sessions.warnings.count();
        let committed = match self.commit(&session, &group_id, &plan).await {
            Ok(committed) => {
                if self.sessions.warnings.count() != warnings {
                    // It may be that nobody waited for the standby: an administrator can break that off.
                    self.wait_for_those_before(&session).await.map_err(Failed::Unknown)?;
                }
                committed
            }
            Err(trouble @ Trouble::NoAnswer(_)) => {
                drop(session);
                let found = self.find_committed(&group_id, last_block).await;
                found.map_err(Failed::Unknown)?.ok_or(trouble)?
            }
            Err(trouble) => {
                self.skip_block(&session).await;
                return Err(trouble.into());
            }
        };
        self.last_block.fetch_max(committed.block, Ordering::Relaxed);
        group.others_are_taken = group.others_are_taken.map(|_| true);
        self.health.note_written(&committed.written);
        group.accept(plan, &committed)?;
        Ok(())
    }

    /// Writes the rows that are still as they were read, and what tells of them, in one transaction. Where there is no
    /// answer, nobody knows whether it is committed.
    async fn commit(
        &self,
        session: &Session,
        group_id: &[u8],
        plan: &Plan,
    ) -> Result<Committed, Trouble> {
        let columns = PlanColumns::of(plan);
        if columns.changed.is_empty() {
            let committed = self.commit_new(session, group_id, &columns).await;
            if let Err(Trouble::Conflict(_)) = committed {
                self.doubt.store(GROUPS_OF_DOUBT, Ordering::Relaxed);
            }
            return committed;
        }
        self.commit_changes(session, group_id, &columns).await
    }

    /// Writes rows that must all be new, in one statement.
    async fn commit_new(
        &self,
        session: &Session,
        group_id: &[u8],
        PlanColumns { new, events, .. }: &PlanColumns<'_>,
    ) -> Result<Committed, Trouble> {
        let slot = counter_slot();
        let counts: [&(dyn ToSql + Sync); 3] = [&slot, &events.more_plants, &events.more_events];
        let parameters =
            [&new.parameters()[..], &[&group_id], &events.parameters(), &counts].concat();
        let rows = session.rows(&self.statements.create_plants, &parameters).await?;
        let row = rows.first().ok_or_else(|| Trouble::Refused("a row is missing".to_owned()))?;
        let written = new.ids.iter().copied().map(PlantId::from).collect();
        Ok(Committed { block: row.try_get(0)?, written })
    }

    /// Writes rows of which some are there before, in a transaction whose statements are sent together.
    async fn commit_changes(
        &self,
        session: &Session,
        group_id: &[u8],
        PlanColumns { new, changed, events }: &PlanColumns<'_>,
    ) -> Result<Committed, Trouble> {
        let slot = counter_slot();
        let of_events = [&[&group_id as &(dyn ToSql + Sync)], &events.parameters()[..]].concat();
        let of_counter: [&(dyn ToSql + Sync); 2] = [&slot, &group_id];
        let (statements, client) = (&self.statements, session.client()?);
        session
            .answer(async {
                let insert = client.prepare_cached(&statements.insert_plants).await?;
                let update = client.prepare_cached(&statements.update_plants).await?;
                let tell = client.prepare_cached(&statements.insert_events).await?;
                let count = client.prepare_cached(&statements.add_to_counter).await?;
                let insert = async {
                    if new.is_empty() {
                        return Ok(Vec::new());
                    }
                    client.query(&insert, &new.parameters()).await
                };
                let update = async { client.query(&update, &changed.parameters_of_change()).await };
                // After an error, what is called a commit takes everything back.
                let commit = client.batch_execute("COMMIT");
                let told = async {
                    let told =
                        join(client.query(&tell, &of_events), client.query(&count, &of_counter));
                    let (told, committed) = join(told, commit).await;
                    told.0?;
                    told.1?;
                    committed
                };
                // They are sent in the order in which they are polled first, which is that of the arguments: first BEGIN,
                // then the rows, then what tells of them, and COMMIT last. Another order writes without a transaction.
                let rows = join(insert, update);
                let (begun, rows, told) =
                    join3(client.simple_query(&statements.begin), rows, told).await;
                let block = block_of(&begun?);
                let (inserted, updated) = (rows.0?, rows.1?);
                told?;
                let ids = inserted.iter().chain(&updated);
                let written = ids.map(|row| Ok(PlantId::from(row.try_get::<_, i64>(0)?)));
                let written = written.collect::<Result<_, tokio_postgres::Error>>()?;
                Ok(block.map(|block| Committed { block, written }))
            })
            .await?
            .ok_or_else(|| Trouble::NoAnswer("a number is missing".to_owned()))
    }

    /// Fills the block of what this session has just taken back, so that nobody who reads events waits for it to be
    /// committed late. That it is no seal is safe: the session is in no transaction any more, so nobody has the block, and
    /// the sequence never gives it again, for what it gave is on the disk before this is. Where it fails, or takes
    /// too long, readers seal the block.
    async fn skip_block(&self, session: &Session) {
        let skipping = session.rows(&self.statements.skip_block, &[]);
        match timeout(LATE_COMMIT_PATIENCE, skipping).await {
            Ok(Ok(_)) => {}
            Ok(Err(trouble)) => log::debug!("a block of events is missing: {trouble}"),
            Err(_) => log::debug!("a block of events is missing: to fill it takes too long"),
        }
    }

    /// Finds out what is committed of a group, which has a later block than `last_block`, and sees to it that the
    /// answer stays true.
    async fn find_committed(
        &self,
        group_id: &[u8],
        last_block: i64,
    ) -> Result<Option<Committed>, Trouble> {
        let begun = Instant::now();
        let mut tries = 0;
        loop {
            match self.seal(group_id, last_block).await {
                Err(trouble @ Trouble::Refused(_)) => return Err(trouble),
                Err(trouble) if begun.elapsed() > FINDING_PATIENCE => return Err(trouble),
                Err(_) => pause(tries).await,
                answer => return answer,
            }
            tries += 1;
        }
    }

    /// Takes the place of the group, unless it is committed. Waits for a transaction that still has it.
    async fn seal(&self, group_id: &[u8], last_block: i64) -> Result<Option<Committed>, Trouble> {
        let session = self.sessions.get().await?;
        session.rows(&self.statements.seal_group, &[&group_id]).await?;
        let found = session.rows(&self.statements.events_of_group, &[&group_id]).await?;
        let row = found.first().ok_or_else(|| Trouble::Refused("a row is missing".to_owned()))?;
        let (block, ids): (i64, Vec<i64>) = (row.try_get(0)?, row.try_get(1)?);
        if ids.is_empty() {
            let forgotten = session.rows(&self.statements.forgotten, &[]).await?;
            let forgotten: i64 = forgotten.first().map_or(Ok(0), |row| row.try_get(0))?;
            if forgotten > last_block {
                let cause = "its events may have been there, and be forgotten: keep more events";
                return Err(Trouble::Refused(cause.to_owned()));
            }
            return Ok(None);
        }
        self.wait_for_those_before(&session).await?;
        // The block that the seal would have had.
        self.skip_block(&session).await;
        Ok(Some(Committed { block, written: ids.into_iter().map(PlantId::from).collect() }))
    }

    /// Commits a change that changes nothing, and asks for changes of no rows: where that is done, the tables are there,
    /// and commits are taken.
    pub(super) async fn write_nothing(&self) -> Result<(), Trouble> {
        let session = self.sessions.get().await?;
        let (new, changed) = (RowColumns::default(), RowColumns::default());
        session.rows(&self.statements.insert_plants, &new.parameters()).await?;
        session.rows(&self.statements.update_plants, &changed.parameters_of_change()).await?;
        session.rows(&self.statements.seal_blocks, &[&1_i64, &0_i64]).await?;
        session.rows(&self.statements.seal_group, &[&None::<&[u8]>]).await?;
        self.wait_for_those_before(&session).await
    }

    /// Finds out whether PostgreSQL takes writes of any plants but `others`. Writes a plant again as it is, and rolls back.
    /// PostgreSQL may refuse this one plant, or another server change it, so up to four of the plants that were written
    /// last are tried. Without any, it is enough that PostgreSQL takes a write of nothing.
    pub(super) async fn rehearse(&self, others: &BTreeSet<PlantId>) -> Result<(), Trouble> {
        self.write_nothing().await?;
        let mut rehearsed = Ok(());
        for sample in self.samples(others).await? {
            rehearsed = self.rehearse_with(&sample).await;
            if !matches!(rehearsed, Err(Trouble::Refused(_) | Trouble::Conflict(_))) {
                break;
            }
        }
        rehearsed
    }

    /// Some of the plants that were written last, by any server, but for `others` and those that were refused.
    async fn samples(&self, others: &BTreeSet<PlantId>) -> Result<Vec<Sample>, Trouble> {
        let unfit = others.iter().copied().chain(self.health.refused());
        let unfit: Vec<i64> = unfit.map(PlantId::get).collect();
        let session = self.sessions.get().await?;
        let rows = session.rows(&self.statements.newest_plants, &[&unfit]).await?;
        let samples = rows.iter().map(Sample::of_row).collect::<Result<_, _>>()?;
        Ok(samples)
    }

    async fn rehearse_with(&self, sample: &Sample) -> Result<(), Trouble> {
        let session = self.sessions.get().await?;
        let rehearsed = self.write_sample(&session, sample).await;
        session.roll_back().await;
        self.skip_block(&session).await;
        rehearsed
    }

    /// Writes a plant in a transaction that is left open.
    async fn write_sample(&self, session: &Session, sample: &Sample) -> Result<(), Trouble> {
        let statements = &self.statements;
        let begin = session.client()?.simple_query(&statements.begin);
        session.answer(begin).await?;
        // The last revision of the block before, for what changes a plant has a later one.
        let mut columns = RowColumns::of_sample(sample, -1);
        session.rows(&statements.insert_plants, &columns.parameters()).await?;
        let (slot, group_id) = (counter_slot(), random_group_id()?);
        let group_id = group_id.as_slice();
        let revision = self.revision_of(session, sample.id).await?;
        if revision.is_none() {
            return Err(Trouble::Refused(NOT_WRITTEN.to_owned()));
        }
        columns = RowColumns { expected: vec![revision], ..RowColumns::of_sample(sample, 0) };
        let changed =
            session.rows(&statements.update_plants, &columns.parameters_of_change()).await?;
        if changed.is_empty() {
            // Another server may have changed the plant since its revision was read.
            return Err(match self.revision_of(session, sample.id).await? == revision {
                true => Trouble::Refused(NOT_WRITTEN.to_owned()),
                false => Trouble::Conflict("others change the same plant".to_owned()),
            });
        }
        let mut events = EventColumns::default();
        events.push(&PlannedEvent { number: 0, kind: EventKind::Updated, id: sample.id.into() });
        let of_events = [&[&group_id as &(dyn ToSql + Sync)], &events.parameters()[..]].concat();
        session.rows(&statements.insert_events, &of_events).await?;
        session.rows(&statements.add_to_counter, &[&slot, &group_id]).await?;
        Ok(())
    }

    /// The revision in the row of a plant, if there is one.
    async fn revision_of(&self, session: &Session, id: i64) -> Result<Option<i64>, Trouble> {
        let ids: &[i64] = &[id];
        let rows = session.rows(&self.statements.plants_with_ids, &[&ids]).await?;
        Ok(rows.first().map(|row| row.try_get(1)).transpose()?)
    }

    /// Waits until all that is visible is as safe as what is acknowledged. Where a standby has to have it too, a commit is
    /// shown also when nobody has waited for that to the end, for its session was ended. A later commit waits for all
    /// that is before it.
    async fn wait_for_those_before(&self, session: &Session) -> Result<(), Trouble> {
        let warnings = self.sessions.warnings.count();
        session.rows(&self.statements.touch_counter, &[&counter_slot()]).await?;
        if self.sessions.warnings.count() == warnings {
            return Ok(());
        }
        // This may be what was broken off.
        Err(Trouble::NoAnswer("PostgreSQL warned of a commit".to_owned()))
    }
}

/// The number in the answer to the beginning of a transaction.
fn block_of(answer: &[SimpleQueryMessage]) -> Option<i64> {
    answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

fn random_group_id() -> Result<[u8; GROUP_ID_BYTES], Trouble> {
    let mut group_id = [0; GROUP_ID_BYTES];
    getrandom::fill(&mut group_id).map_err(|cause| Trouble::Refused(cause.to_string()))?;
    Ok(group_id)
}

/// A row of the counters, by chance, so that those who write at the same time seldom wait for each other.
fn counter_slot() -> i32 {
    fastrand::i32(0..COUNTER_SLOTS)
}

fn refused(cause: anyhow::Error) -> Trouble {
    Trouble::Refused(format!("{cause:#}"))
}

impl<'a> WriteGroup<'a> {
    fn new(writes: Vec<Write>, to_read: BTreeSet<PlantId>, answer: Answer<'a>) -> Self {
        Self {
            part: 0..writes.len(),
            writes: writes.into_iter().map(Some).collect(),
            answer,
            to_read,
            present: HashMap::new(),
            not_found: HashMap::new(),
            last_answer: Instant::now(),
            others_are_taken: None,
        }
    }

    fn is_done(&self) -> bool {
        self.pending().next().is_none()
    }

    /// What has no answer of the part that is tried now, in two parts, unless that is a single write.
    fn halves(&self) -> Option<[Range<usize>; 2]> {
        let places: Vec<usize> = self.pending().map(|(place, _)| place).collect();
        let middle = *places.get(places.len() / 2).filter(|_| places.len() > 1)?;
        Some([self.part.start..middle, middle..self.part.end])
    }

    /// Answers those of the part that is tried now that have no answer yet.
    fn answer_pending(&mut self, error: &StoreError) {
        for place in self.part.clone() {
            if self.writes[place].take().is_some() {
                (self.answer)(place, Err(error.clone()));
            }
        }
        self.last_answer = Instant::now();
    }

    /// Whether it takes for granted, without a look, that some id is free.
    fn counts_on_ids(&self) -> bool {
        self.pending().any(|(_, write)| !self.to_read.contains(&write.id()))
    }

    /// No longer counts on any id being free.
    fn read_all_next_time(&mut self) {
        self.to_read.append(&mut self.pending_ids());
    }

    /// The plants of pending writes.
    fn pending_ids(&self) -> BTreeSet<PlantId> {
        self.pending().map(|(_, write)| write.id()).collect()
    }

    /// The writes of the part that is tried now that have no answer yet.
    fn pending(&self) -> impl Iterator<Item = (usize, &Write)> {
        self.part.clone().filter_map(|place| Some((place, self.writes[place].as_ref()?)))
    }

    /// Reads the plants of pending writes, except those whose ids are counted on to be free.
    async fn read(&mut self, session: &Session, statements: &Statements) -> Result<(), Trouble> {
        self.present.clear();
        let ids = self.pending_ids();
        let ids: Vec<i64> = ids.intersection(&self.to_read).map(|id| id.get()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        for row in session.rows(&statements.plants_with_ids, &[&ids]).await? {
            let (id, present) = Present::of_row(&row).map_err(refused)?;
            self.present.insert(id, present);
        }
        Ok(())
    }

    /// Decides the writes in turn, each as it finds the plants after those before it.
    fn plan(&self) -> Result<Plan, Trouble> {
        let mut plan = Plan { decided: Vec::new(), rows: BTreeMap::new(), events: Vec::new() };
        let mut number = 0_i64;
        for (place, write) in self.pending() {
            let id = write.id();
            let present = self.present.get(&id);
            let current = match plan.rows.get(&id) {
                Some(row) => row.after.clone(),
                None => present.and_then(|present| present.plant.clone()),
            };
            let planned = Revision::from(PLANNED_REVISIONS + number.cast_unsigned());
            let decided = write.decide(current, planned);
            if let Ok(decision) = &decided
                && let Some(kind) = decision.change
            {
                plan.events.push(PlannedEvent { number, kind, id });
                let row = plan.rows.entry(id).or_insert_with(|| PlannedRow {
                    before: present.cloned().unwrap_or_default(),
                    after: None,
                    number,
                });
                (row.after, row.number) = (decision.after().cloned(), number);
                number += 1;
            }
            plan.decided.push((place, decided));
        }
        Ok(plan)
    }

    /// What was planned is done, but for plants whose rows were not written. Somebody else has changed those, and they
    /// are read again; where it is found then that nobody has, PostgreSQL keeps them from being written.
    fn accept(&mut self, plan: Plan, committed: &Committed) -> Result<(), Trouble> {
        let Plan { decided, rows, .. } = plan;
        let first_revision = (committed.block * EVENTS_IN_A_BLOCK).cast_unsigned();
        let real = |mut decision: Decision| {
            let revision = &mut decision.plant.stored.revision;
            if let Some(number) = revision.get().checked_sub(PLANNED_REVISIONS) {
                *revision = Revision::from(first_revision + number);
            }
            decision
        };
        for (place, decided) in decided {
            let Some(write) = self.writes[place].take() else { continue };
            let id = write.id();
            if rows.contains_key(&id) && !committed.written.contains(&id) {
                self.to_read.insert(id);
                self.writes[place] = Some(write);
                continue;
            }
            (self.answer)(place, decided.map(real));
            self.last_answer = Instant::now();
        }
        let mut kept = None;
        for (id, row) in rows.into_iter().filter(|(id, _)| !committed.written.contains(id)) {
            let expected = row.before.revision;
            if self.not_found.insert(id, expected) == Some(expected) {
                kept = Some((id, expected));
            }
        }
        kept.map_or(Ok(()), |(id, expected)| Err(kept_as_it_is(id, expected)))
    }
}

/// Nobody else changes a row, and yet it was not written.
fn kept_as_it_is(id: PlantId, revision: Option<i64>) -> Trouble {
    Trouble::Refused(match revision {
        Some(revision) => format!(
            "the row of plant {id} cannot be changed: its revision {revision} is not less than the next one, or {KEPT}"
        ),
        None => format!("the row of plant {id} cannot be made: {KEPT}"),
    })
}

/// What keeps a row as it is without an error.
const KEPT: &str = "a trigger, a rule or a policy keeps it as it is";

/// What is said of rows that were rehearsed.
const NOT_WRITTEN: &str = "a row was not written: a trigger, a rule or a policy keeps it as it is";

/// A plant as it stands in its row.
struct Sample {
    id: i64,
    name: String,
    tag: Option<String>,
}

impl Sample {
    fn of_row(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { id: row.try_get(0)?, name: row.try_get(1)?, tag: row.try_get(2)? })
    }
}

impl Present {
    fn of_row(row: &Row) -> anyhow::Result<(PlantId, Self)> {
        let (id, revision): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let (name, tag): (Option<&str>, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
        let idempotency: Option<&[u8]> = row.try_get(4)?;
        let id = PlantId::from(id);
        let to_plant = |name: &str| -> anyhow::Result<KeptPlant> {
            let idempotency =
                idempotency.map(<[u8; IdempotencyDigest::BYTES]>::try_from).transpose()?;
            // What breaks a rule was not written by a server.
            let plant = Plant::new(name, tag.map(str::to_owned))?;
            let revision = Revision::from(revision.cast_unsigned());
            Ok(KeptPlant {
                stored: StoredPlant { id, plant, revision },
                idempotency: idempotency.map(IdempotencyDigest::from_bytes),
            })
        };
        let plant =
            name.map(to_plant).transpose().with_context(|| format!("the row of plant {id}"))?;
        Ok((id, Self { revision: Some(revision), plant }))
    }
}

/// What a group would make of its plants, as statements take it.
struct PlanColumns<'a> {
    /// Rows that are not there yet.
    new: RowColumns<'a>,
    changed: RowColumns<'a>,
    events: EventColumns,
}

impl<'a> PlanColumns<'a> {
    fn of(plan: &'a Plan) -> Self {
        let [mut new, mut changed] = [RowColumns::default(), RowColumns::default()];
        for (id, row) in &plan.rows {
            let columns = if row.before.revision.is_some() { &mut changed } else { &mut new };
            columns.push(*id, row);
        }
        let mut events = EventColumns::default();
        for event in &plan.events {
            events.push(event);
        }
        Self { new, changed, events }
    }
}

/// Events, each column on its own.
#[derive(Default)]
struct EventColumns {
    numbers: Vec<i64>,
    kinds: Vec<i16>,
    ids: Vec<i64>,
    /// By how much the counts grow with them. Where rows may not be written, PostgreSQL counts those that are.
    more_plants: i64,
    more_events: i64,
}

impl EventColumns {
    fn parameters(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.numbers, &self.kinds, &self.ids]
    }

    fn push(&mut self, event: &PlannedEvent) {
        self.numbers.push(event.number);
        self.kinds.push(kind_number(event.kind));
        self.ids.push(event.id.get());
        self.more_plants += match event.kind {
            EventKind::Created => 1,
            EventKind::Updated => 0,
            EventKind::Deleted => -1,
        };
        self.more_events += 1;
    }
}

/// Rows, each column on its own.
#[derive(Default)]
struct RowColumns<'a> {
    ids: Vec<i64>,
    numbers: Vec<i64>,
    names: Vec<Option<&'a str>>,
    folded_names: Vec<Option<String>>,
    tags: Vec<Option<&'a str>>,
    idempotency: Vec<Option<Vec<u8>>>,
    /// The revisions that the rows must have.
    expected: Vec<Option<i64>>,
}

impl<'a> RowColumns<'a> {
    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// As a statement takes them, but for what is expected.
    fn parameters(&self) -> [&(dyn ToSql + Sync); 6] {
        let Self { ids, numbers, names, folded_names, tags, idempotency, .. } = self;
        [ids, numbers, names, folded_names, tags, idempotency]
    }

    /// As a statement takes them that changes rows.
    fn parameters_of_change(&self) -> Vec<&(dyn ToSql + Sync)> {
        [&self.parameters()[..], &[&self.expected]].concat()
    }

    fn of_sample(sample: &'a Sample, number: i64) -> Self {
        Self {
            ids: vec![sample.id],
            numbers: vec![number],
            names: vec![Some(&sample.name)],
            folded_names: vec![Some(fold_name(&sample.name))],
            tags: vec![sample.tag.as_deref()],
            idempotency: vec![None],
            expected: vec![None],
        }
    }

    fn push(&mut self, id: PlantId, row: &'a PlannedRow) {
        let after = row.after.as_ref();
        let plant = after.map(|after| &after.stored.plant);
        let digest = after.and_then(|after| after.idempotency);
        self.ids.push(id.get());
        self.numbers.push(row.number);
        self.names.push(plant.map(Plant::name));
        self.folded_names.push(plant.map(|plant| fold_name(plant.name())));
        self.tags.push(plant.and_then(Plant::tag));
        self.idempotency.push(digest.map(|digest| digest.to_bytes().to_vec()));
        self.expected.push(row.before.revision);
    }
}
