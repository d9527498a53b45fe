//! Brings one group of writes to the disk.
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

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use futures_util::future::{join, join3};
use plant_domain::PlantId;
use plant_store::decision::{Decision, Write};
use plant_store::{EventKind, StoreError, StoreFailure};
use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::ToSql;

use crate::columns::{EventColumns, PlanColumns, RowColumns, Sample};
use crate::group::{AnswerWrite, Committed, KEPT, Plan, PlannedEvent, WriteGroup};
use crate::reader::LATE_COMMIT_PATIENCE;
use crate::schema::COUNTER_SLOTS;
use crate::sessions::{PATIENCE, Session, SessionError, Sessions, pause};
use crate::statements::Statements;
use crate::write_health::{READY_WITHIN, WriteHealth};

/// How long the writer tries to find out what became of a group, counted from when that was lost.
const FINDING_PATIENCE: Duration = Duration::from_secs(20);

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
    WithoutTrace(SessionError),
    /// Nobody knows what it wrote.
    Unknown(SessionError),
}

impl From<SessionError> for Failed {
    fn from(error: SessionError) -> Self {
        Self::WithoutTrace(error)
    }
}

impl Writer {
    /// Carries out writes that nobody has put in an order, and answers each. It always ends: after a while it gives up
    /// what cannot be done.
    pub(super) async fn carry_out(&self, writes: Vec<Write>, answer: AnswerWrite<'_>) {
        let less = |doubt: u32| doubt.checked_sub(1);
        let is_in_doubt =
            self.doubt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        let needs_a_look = |write: &&Write| is_in_doubt || !matches!(write, Write::Create { .. });
        let to_read = writes.iter().filter(needs_a_look).map(Write::id).collect();
        self.carry_out_group(WriteGroup::new(writes, to_read, answer)).await;
    }

    /// Carries out writes in their order, and returns the outcome of each. Where another client changes the same plants
    /// meanwhile, writes of these plants may come later than those after them.
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
                Ok(()) => Failed::WithoutTrace(SessionError::Conflict(
                    "others change the same plants".to_owned(),
                )),
                Err(failed) => {
                    // It may be that an id is taken, also by somebody else meanwhile.
                    group.read_all_next_time();
                    failed
                }
            };
            match failed {
                Failed::WithoutTrace(SessionError::StaleStatement(_)) if !was_stale => {
                    was_stale = true;
                    continue;
                }
                Failed::WithoutTrace(
                    SessionError::Refused(said) | SessionError::StaleStatement(said),
                ) => {
                    let cause = StoreFailure::new(anyhow!(SessionError::Refused(said)));
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
                        Err(SessionError::Refused(_) | SessionError::StaleStatement(_)) => {
                            self.health.note_no_writes(&cause);
                            return Err(GivenUp::All(StoreError::Unavailable(cause)));
                        }
                        Err(error) => failed = Failed::WithoutTrace(error),
                    }
                }
                _ => {}
            }
            match failed {
                // Ids that were assumed free are read in the next try: creates of taken ids fail there, others pass.
                Failed::WithoutTrace(SessionError::Conflict(_)) if has_counted_on_ids => {}
                Failed::WithoutTrace(error) if group.last_answer.elapsed() > PATIENCE => {
                    return Err(GivenUp::All(self.give_up(error, &group.pending_ids()).await));
                }
                Failed::WithoutTrace(_) => {
                    pause(tries).await;
                    tries += 1;
                }
                Failed::Unknown(error) => {
                    let failure = StoreFailure::new(anyhow!(error));
                    log::error!("what became of writes is not known: {failure}");
                    return Err(GivenUp::All(failure.into()));
                }
            }
        }
    }

    /// Says why writes of these plants, which were not carried out, are not tried again.
    async fn give_up(&self, error: SessionError, ids: &BTreeSet<PlantId>) -> StoreError {
        log::warn!("writes are given up, and were not carried out: {error}");
        let takes_no_writes = match &error {
            // When the sequence is behind, every group conflicts with a block that is there already.
            SessionError::Conflict(_) => {
                if let Ok(Ok(())) = timeout(READY_WITHIN, self.rehearse(ids)).await {
                    return StoreError::Busy;
                }
                true
            }
            error => matches!(error, SessionError::Unavailable(_)),
        };
        let cause = StoreFailure::new(anyhow!(error));
        if takes_no_writes {
            self.health.note_no_writes(&cause);
        }
        StoreError::Unavailable(cause)
    }

    /// Carries out the pending writes, except where somebody else changes the plant meanwhile.
    async fn try_once(&self, group: &mut WriteGroup<'_>) -> Result<(), Failed> {
        let session = self.sessions.get().await?;
        group.read(&session, &self.statements).await?;
        let plan = group.plan();
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
            Err(error @ SessionError::NoAnswer(_)) => {
                drop(session);
                let found = self.find_committed(&group_id, last_block).await;
                found.map_err(Failed::Unknown)?.ok_or(error)?
            }
            Err(error) => {
                self.skip_block(&session).await;
                return Err(error.into());
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
    ) -> Result<Committed, SessionError> {
        let columns = PlanColumns::of(plan);
        if columns.changed.is_empty() {
            let committed = self.commit_new(session, group_id, &columns).await;
            if let Err(SessionError::Conflict(_)) = committed {
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
    ) -> Result<Committed, SessionError> {
        let slot = counter_slot();
        let counts: [&(dyn ToSql + Sync); 3] = [&slot, &events.more_plants, &events.more_events];
        let parameters =
            [&new.parameters()[..], &[&group_id], &events.parameters(), &counts].concat();
        let row = session.row(&self.statements.create_plants, &parameters).await?;
        let written = new.ids.iter().copied().map(PlantId::from).collect();
        Ok(Committed { block: row.try_get(0)?, written })
    }

    /// Writes rows of which some are there before, in a transaction whose statements are sent together.
    async fn commit_changes(
        &self,
        session: &Session,
        group_id: &[u8],
        PlanColumns { new, changed, events }: &PlanColumns<'_>,
    ) -> Result<Committed, SessionError> {
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
            .ok_or_else(|| SessionError::NoAnswer("a number is missing".to_owned()))
    }

    /// Fills the block of the transaction that this session has just rolled back. Otherwise readers of events would wait
    /// for a late commit of that block. No seal is needed: no transaction holds the block any more, and the sequence, which
    /// is on disk first, never gives the number again. Where filling fails or takes too long, readers seal the block.
    async fn skip_block(&self, session: &Session) {
        let skipping = session.rows(&self.statements.skip_block, &[]);
        match timeout(LATE_COMMIT_PATIENCE, skipping).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => log::debug!("a block of events is missing: {error}"),
            Err(_) => log::debug!("a block of events is missing: to fill it takes too long"),
        }
    }

    /// Finds out what is committed of a group, which has a later block than `last_block`, and sees to it that the
    /// answer stays true.
    async fn find_committed(
        &self,
        group_id: &[u8],
        last_block: i64,
    ) -> Result<Option<Committed>, SessionError> {
        let begun = Instant::now();
        let mut tries = 0;
        loop {
            match self.seal(group_id, last_block).await {
                Err(error @ SessionError::Refused(_)) => return Err(error),
                Err(error) if begun.elapsed() > FINDING_PATIENCE => return Err(error),
                Err(_) => pause(tries).await,
                answer => return answer,
            }
            tries += 1;
        }
    }

    /// Takes the place of the group, unless it is committed. Waits for a transaction that still has it.
    async fn seal(
        &self,
        group_id: &[u8],
        last_block: i64,
    ) -> Result<Option<Committed>, SessionError> {
        let session = self.sessions.get().await?;
        session.rows(&self.statements.seal_group, &[&group_id]).await?;
        let row = session.row(&self.statements.events_of_group, &[&group_id]).await?;
        let (block, ids): (i64, Vec<i64>) = (row.try_get(0)?, row.try_get(1)?);
        if ids.is_empty() {
            let forgotten = session.rows(&self.statements.forgotten, &[]).await?;
            let forgotten: i64 = forgotten.first().map_or(Ok(0), |row| row.try_get(0))?;
            if forgotten > last_block {
                let cause = "its events may have been there, and be forgotten: keep more events";
                return Err(SessionError::Refused(cause.to_owned()));
            }
            return Ok(None);
        }
        self.wait_for_those_before(&session).await?;
        // The block that the seal would have had.
        self.skip_block(&session).await;
        Ok(Some(Committed { block, written: ids.into_iter().map(PlantId::from).collect() }))
    }

    /// Inserts and updates no rows, and commits. Success shows that the tables exist and that PostgreSQL takes commits.
    pub(super) async fn write_nothing(&self) -> Result<(), SessionError> {
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
    pub(super) async fn rehearse(&self, others: &BTreeSet<PlantId>) -> Result<(), SessionError> {
        self.write_nothing().await?;
        let mut rehearsed = Ok(());
        for sample in self.samples(others).await? {
            rehearsed = self.rehearse_with(&sample).await;
            if !matches!(rehearsed, Err(SessionError::Refused(_) | SessionError::Conflict(_))) {
                break;
            }
        }
        rehearsed
    }

    /// Some of the plants that were written last, by any server, but for `others` and those that were refused.
    async fn samples(&self, others: &BTreeSet<PlantId>) -> Result<Vec<Sample>, SessionError> {
        let unfit = others.iter().copied().chain(self.health.refused());
        let unfit: Vec<i64> = unfit.map(PlantId::get).collect();
        let session = self.sessions.get().await?;
        let rows = session.rows(&self.statements.newest_plants, &[&unfit]).await?;
        let samples = rows.iter().map(Sample::of_row).collect::<Result<_, _>>()?;
        Ok(samples)
    }

    async fn rehearse_with(&self, sample: &Sample) -> Result<(), SessionError> {
        let session = self.sessions.get().await?;
        let rehearsed = self.write_sample(&session, sample).await;
        session.roll_back().await;
        self.skip_block(&session).await;
        rehearsed
    }

    /// Writes a plant in a transaction that is left open.
    async fn write_sample(&self, session: &Session, sample: &Sample) -> Result<(), SessionError> {
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
            return Err(not_written());
        }
        columns = RowColumns { expected: vec![revision], ..RowColumns::of_sample(sample, 0) };
        let changed =
            session.rows(&statements.update_plants, &columns.parameters_of_change()).await?;
        if changed.is_empty() {
            // Another server may have changed the plant since its revision was read.
            return Err(match self.revision_of(session, sample.id).await? == revision {
                true => not_written(),
                false => SessionError::Conflict("others change the same plant".to_owned()),
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
    async fn revision_of(&self, session: &Session, id: i64) -> Result<Option<i64>, SessionError> {
        let ids: &[i64] = &[id];
        let rows = session.rows(&self.statements.plants_with_ids, &[&ids]).await?;
        Ok(rows.first().map(|row| row.try_get(1)).transpose()?)
    }

    /// Waits until everything visible is as durable as what is acknowledged. With synchronous replication, a commit becomes
    /// visible before the standby has it when its session ends during the wait. This commits once more: a commit waits
    /// for the standby to have all earlier ones too.
    async fn wait_for_those_before(&self, session: &Session) -> Result<(), SessionError> {
        let warnings = self.sessions.warnings.count();
        session.rows(&self.statements.touch_counter, &[&counter_slot()]).await?;
        if self.sessions.warnings.count() == warnings {
            return Ok(());
        }
        // PostgreSQL warns where the wait for the standby was canceled: perhaps this one.
        Err(SessionError::NoAnswer("PostgreSQL warned of a commit".to_owned()))
    }
}

/// A row was rehearsed, and PostgreSQL did not write it.
fn not_written() -> SessionError {
    SessionError::Refused(format!("a row was not written: {KEPT}"))
}

/// The number in the answer to the beginning of a transaction.
fn block_of(answer: &[SimpleQueryMessage]) -> Option<i64> {
    answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

fn random_group_id() -> Result<[u8; GROUP_ID_BYTES], SessionError> {
    let mut group_id = [0; GROUP_ID_BYTES];
    getrandom::fill(&mut group_id).map_err(|cause| SessionError::Refused(cause.to_string()))?;
    Ok(group_id)
}

/// A row of the counters, by chance, so that those who write at the same time seldom wait for each other.
fn counter_slot() -> i32 {
    fastrand::i32(0..COUNTER_SLOTS)
}
