//! Carries out groups of writes.
//!
//! 1. The plants are read, and the writes are decided in order. A create assumes that its id is free, and reads
//!    nothing, unless such an assumption has failed recently.
//! 2. One transaction, sent to PostgreSQL as a whole, takes a block of revisions, writes each row if it has not changed
//!    since it was read, inserts the events of the rows that it has written, and counts them. If all rows are new, one
//!    statement does this, and fails as a whole if a row is there already.
//! 3. Writes whose row has changed in the meantime are tried again, after another read.
//! 4. If PostgreSQL refuses the group, the group is halved until the refused write is alone. If no other part was
//!    carried out meanwhile, a rehearsal ([`WriteHealth::rehearse`]) runs the same statements with other plants. If it
//!    is refused too, and PostgreSQL takes no other part within [`PATIENCE`], PostgreSQL takes no writes now. So no
//!    write is given up because another one is refused.
//!
//! Every group has a random id in the row of its block. If the outcome of a commit is unknown, the writer inserts a row
//! with the same id. If such a row exists already, the group is committed; otherwise, the new row prevents its commit
//! for good.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use plant_domain::PlantId;
use plant_store::write::{Decision, Write};
use plant_store::{Author, StoreError, StoreFailure};
use tokio::time::timeout;

use crate::attempts::{Attempts, Next};
use crate::group::{WaitingWrite, WriteGroup};
use crate::metrics::PostgresMetrics;
use crate::plan::{Committed, Plan, RowColumns};
use crate::sessions::{PATIENCE, Session, SessionError, Sessions, pause};
use crate::statements::{EVENTS_OF_GROUP, LOG, SEAL_GROUP};
use crate::tail::EventTail;
use crate::transaction::{
    Course, GroupRecord, commit_new, random_group_id, skip_block, wait_for_standby, write_changes,
};
use crate::write_health::{READY_WITHIN, WriteHealth};

/// How long the writer tries to find out the outcome of a group after its answer was lost.
const FINDING_PATIENCE: Duration = Duration::from_secs(20);

/// After a group of creates was rolled back, this many groups read the rows of their plants first. The usual cause is a
/// taken id (a removed plant has a row too). A client that creates existing plants usually does so repeatedly, and each
/// failed statement leaves dead rows.
const GROUPS_THAT_READ_FIRST: u32 = 100;

/// Carries out groups of writes.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) sessions: Sessions,
    tail: Arc<EventTail>,
    pub(super) metrics: Arc<PostgresMetrics>,
    /// A committed block. Groups that begin later have later blocks.
    last_block: AtomicI64,
    /// How many of the next groups do not assume that ids are free.
    groups_that_read_first: AtomicU32,
    pub(super) health: WriteHealth,
    /// Whether anything was written since the last turn of upkeep.
    pub(super) has_written: AtomicBool,
    /// How many plants were written since upkeep last sorted their names; at first, those that others have left.
    pub(super) unsorted_names: AtomicUsize,
}

impl Writer {
    pub(super) fn new(
        sessions: Sessions,
        tail: Arc<EventTail>,
        metrics: Arc<PostgresMetrics>,
        last_block: i64,
    ) -> Self {
        Self {
            sessions,
            tail,
            metrics,
            last_block: AtomicI64::new(last_block),
            groups_that_read_first: AtomicU32::new(0),
            health: WriteHealth::default(),
            has_written: AtomicBool::new(true),
            unsorted_names: AtomicUsize::new(1),
        }
    }

    /// Carries out writes of independent clients, and answers each. Gives up after a while on writes that cannot be
    /// carried out.
    pub(super) async fn carry_out(&self, writes: Vec<WaitingWrite>) {
        let less = |groups: u32| groups.checked_sub(1);
        let reads_first = self
            .groups_that_read_first
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok();
        let is_to_read = |write: &&Write| reads_first || !matches!(write, Write::Create(..));
        let to_read = writes.iter().map(|waiting| &waiting.write).filter(is_to_read).map(Write::id);
        let group = WriteGroup::new(to_read.collect());
        self.carry_out_group(group, writes).await;
    }

    /// Carries out writes in order, and returns their outcomes. If another client changes the same plants concurrently,
    /// writes of these plants may be carried out after later writes.
    pub(super) async fn carry_out_in_turn(
        &self,
        writes: Vec<Write>,
        by: Option<&Author>,
    ) -> Vec<Result<Decision, StoreError>> {
        let group = WriteGroup::new(writes.iter().map(Write::id).collect());
        let (writes, outcomes): (Vec<_>, Vec<_>) =
            writes.into_iter().map(|write| WaitingWrite::new(write, by.cloned())).unzip();
        self.carry_out_group(group, writes).await;
        let no_outcome = |_| Err(StoreFailure::new(anyhow!("a write has no outcome")).into());
        outcomes.into_iter().map(|mut it| it.try_recv().unwrap_or_else(no_outcome)).collect()
    }

    async fn carry_out_group(&self, mut group: WriteGroup, writes: Vec<WaitingWrite>) {
        // A stack, whose last element is the first part.
        let mut parts = vec![writes];
        while let Some(part) = parts.pop() {
            group.pending = part;
            match self.carry_out_part(&mut group).await {
                Ok(()) => {}
                Err(StoreError::Refused(_)) if group.pending.len() > 1 => {
                    let second = group.pending.split_off(group.pending.len() / 2);
                    parts.extend([second, mem::take(&mut group.pending)]);
                }
                Err(StoreError::Refused(cause)) => {
                    let refused = mem::take(&mut group.pending);
                    group.refused.extend(refused.into_iter().map(|write| (write, cause.clone())));
                    // Otherwise, the other parts will tell whether PostgreSQL takes any.
                    if group.others_are_taken {
                        self.answer_refused(&mut group);
                    }
                }
                // PostgreSQL takes others. The other parts were not tried.
                Err(error @ StoreError::Busy) => {
                    group.answer_pending(&error);
                    group.others_are_taken = true;
                }
                Err(error) => {
                    group.answer_pending(&error);
                    group.pending = parts.drain(..).flatten().collect();
                    // The other parts were not sent.
                    group.answer_pending(&match error {
                        StoreError::Failed(cause) => StoreError::Unavailable(cause),
                        error => error,
                    });
                }
            }
        }
        self.answer_refused(&mut group);
    }

    /// Answers the single writes that PostgreSQL has refused: it refuses these if it took others, and else takes none.
    fn answer_refused(&self, group: &mut WriteGroup) {
        for (waiting, cause) in mem::take(&mut group.refused) {
            let error = if group.others_are_taken {
                self.health.note_refused(waiting.write.id());
                StoreError::Refused(cause)
            } else {
                self.health.note_no_writes(&cause);
                StoreError::Unavailable(cause)
            };
            waiting.answer(Err(error));
            group.last_answer = Instant::now();
        }
    }

    /// Carries out the pending writes, and retries temporary failures for a while. [`StoreError::Refused`]: PostgreSQL
    /// refuses something in this part, but may take other writes. [`StoreError::Busy`]: PostgreSQL takes other writes.
    /// After any other error, no part of the group can be carried out.
    async fn carry_out_part(&self, group: &mut WriteGroup) -> Result<(), StoreError> {
        let mut attempts = Attempts::default();
        loop {
            let assumed_free_ids = group.assumes_free_ids();
            let error = match self.try_once(group).await {
                Ok(()) if group.pending.is_empty() => return Ok(()),
                Ok(()) => SessionError::Conflict("other clients change the same plants".to_owned()),
                Err(error) => error,
            };
            // The cause may be a taken id.
            group.read_all_next_time();
            let error = match attempts.next(error) {
                Next::TryAgain => continue,
                // The next attempt reads the ids that were assumed to be free, and refuses only creates of taken ones.
                Next::TryLater(SessionError::Conflict(_)) if assumed_free_ids => continue,
                Next::TryLater(error) => error,
                Next::Unknown(error) => return Err(error),
                Next::Refused(cause) => {
                    group.was_refused = true;
                    let may_take_none = group.is_rehearsal_refused && !group.others_are_taken;
                    if may_take_none && group.last_answer.elapsed() > PATIENCE {
                        return Err(StoreError::Unavailable(cause));
                    }
                    // Other parts of the group prove as much as a rehearsal.
                    if may_take_none || group.others_are_taken || group.pending.len() > 1 {
                        return Err(StoreError::Refused(cause));
                    }
                    match self.health.rehearse(&self.sessions, &group.pending_ids()).await {
                        Ok(()) => {
                            // One more attempt tells whether PostgreSQL still refuses the write.
                            group.others_are_taken = true;
                            continue;
                        }
                        Err(SessionError::Refused(_) | SessionError::StaleStatement(_)) => {
                            group.is_rehearsal_refused = true;
                            return Err(StoreError::Refused(cause));
                        }
                        Err(error) => error,
                    }
                }
            };
            if !attempts.pause(group.last_answer).await {
                return Err(self.give_up(error, &group.pending_ids()).await);
            }
            self.metrics.retries.inc();
        }
    }

    /// The outcome of writes of these plants that were not carried out and are not retried.
    pub(super) async fn give_up(&self, error: SessionError, ids: &BTreeSet<PlantId>) -> StoreError {
        log::warn!("gave up on writes, which were not carried out: {error}");
        let takes_no_writes = match &error {
            // If the sequence is behind, every group conflicts with a block that exists already.
            SessionError::Conflict(_) => {
                let rehearsal = self.health.rehearse(&self.sessions, ids);
                if let Ok(Ok(())) = timeout(READY_WITHIN, rehearsal).await {
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

    /// Carries out the pending writes, except those of plants that another client changes at the same time.
    async fn try_once(&self, group: &mut WriteGroup) -> Result<(), SessionError> {
        let session = self.sessions.get().await?;
        let plan = group.plan(&session).await?;
        if plan.rows.is_empty() {
            if plan.decided.iter().any(Result::is_ok) {
                wait_for_standby(&session).await?;
            }
            return group.accept(plan, &Committed::default());
        }
        let begun = Instant::now();
        let committed = self.commit(session, &plan, Course::Commit, None).await?;
        self.note_committed(&committed, begun);
        group.others_are_taken |= group.was_refused;
        group.accept(plan, &committed)
    }

    pub(super) fn note_committed(&self, committed: &Committed, begun: Instant) {
        self.metrics.commit.note_commit(committed.written.len(), begun.elapsed());
        self.last_block.fetch_max(committed.block, Ordering::Relaxed);
        self.tail.note_own(committed.block);
        self.unsorted_names.fetch_add(committed.written.len(), Ordering::Relaxed);
        self.health.note_written(&committed.written);
    }

    /// Commits the rows that are unchanged since they were read, and their events. If the answer is lost, finds out the
    /// outcome, or fails with [`SessionError::UnknownOutcome`]. `batch` has the digest and the results of a batch. See
    /// [`Course::rolls_back`].
    pub(super) async fn commit(
        &self,
        session: Session,
        plan: &Plan,
        course: Course,
        batch: Option<(&[u8], &[u8])>,
    ) -> Result<Committed, SessionError> {
        let group_id = random_group_id()?;
        let last_block = self.last_block.load(Ordering::Relaxed);
        let warnings = session.warnings();
        let [new, changed] = RowColumns::of(&plan.rows);
        let events = plan.events();
        let is_all_new = course == Course::Commit && changed.ids.is_empty();
        let committed = if is_all_new {
            commit_new(&session, &group_id, &new, &events).await
        } else {
            let record = GroupRecord { group_id: &group_id, batch };
            write_changes(&session, record, &new, &changed, &events, course).await
        };
        // Even if the answer is lost.
        self.has_written.store(true, Ordering::Relaxed);
        let unknown = |error: SessionError| SessionError::UnknownOutcome(error.to_string());
        match committed {
            Ok(committed) if course.rolls_back(&committed, plan) => {
                skip_block(&session).await;
                Ok(committed)
            }
            Ok(committed) => {
                if session.warnings() != warnings {
                    // An administrator may have canceled the wait for the standby.
                    wait_for_standby(&session).await.map_err(unknown)?;
                }
                Ok(committed)
            }
            Err(error @ SessionError::NoAnswer(_)) => {
                drop(session);
                let found = self.find_committed(&group_id, last_block).await;
                found.map_err(unknown)?.ok_or(error)
            }
            Err(error) => {
                if is_all_new && matches!(error, SessionError::Conflict(_)) {
                    self.groups_that_read_first.store(GROUPS_THAT_READ_FIRST, Ordering::Relaxed);
                }
                if course == Course::CommitAll {
                    session.roll_back().await;
                }
                skip_block(&session).await;
                Err(error)
            }
        }
    }

    /// Finds out whether a group, whose block is later than `last_block`, is committed, and makes that final.
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

    /// Seals the group, unless it is committed. Waits for a transaction that is still committing it.
    async fn seal(
        &self,
        group_id: &[u8],
        last_block: i64,
    ) -> Result<Option<Committed>, SessionError> {
        let session = self.sessions.get().await?;
        session.rows(SEAL_GROUP, &[&group_id]).await?;
        let row = session.row(EVENTS_OF_GROUP, &[&group_id]).await?;
        let (block, ids): (i64, Vec<i64>) = (row.try_get(0)?, row.try_get(1)?);
        if ids.is_empty() {
            let log = session.rows(LOG, &[]).await?;
            let forgotten: i64 = log.first().map_or(Ok(0), |row| row.try_get("forgotten_to"))?;
            if forgotten > last_block {
                let cause = "its events may have been there, and be forgotten: keep more events";
                return Err(SessionError::Refused(cause.to_owned()));
            }
            return Ok(None);
        }
        wait_for_standby(&session).await?;
        // Fills the block that the seal took but did not need.
        skip_block(&session).await;
        Ok(Some(Committed { block, written: ids.into_iter().map(PlantId::from).collect() }))
    }
}
