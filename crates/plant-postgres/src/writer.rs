//! Carries out groups of writes.
//!
//! 1. The plants are read, and the writes are decided in order. A create assumes that its id is free, and reads
//!    nothing, unless such an assumption has failed recently.
//! 2. One transaction, sent to PostgreSQL as a whole, takes a block of revisions, writes each row if it has not changed
//!    since it was read, inserts the events of the rows that it has written, and counts them. If all rows are new, one
//!    statement does this, and fails as a whole if a row is there already.
//! 3. Writes whose row has changed in the meantime are tried again, after another read.
//! 4. If PostgreSQL refuses the group, the group is halved until the refused write is alone. If no other part of the
//!    group was carried out in between, a rehearsal ([`WriteHealth::rehearse`]) runs the same statements with other
//!    plants. If the rehearsal fails too, PostgreSQL takes no writes now, and the writer gives up the whole group.
//!
//! Every group has a random id, which is in the row of its block. If the outcome of a commit is unknown, the writer inserts
//! a row with the same id. If such a row exists already, the group is committed; otherwise the new row prevents its
//! commit for good.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use plant_domain::PlantId;
use plant_store::decision::{Decision, Write};
use plant_store::{StoreError, StoreFailure};
use tokio::time::timeout;

use crate::columns::{EventColumns, RowColumns};
use crate::group::{Committed, Plan, WriteGroup};
use crate::sessions::{PATIENCE, Session, SessionError, Sessions, pause};
use crate::statements::{EVENTS_OF_GROUP, FORGOTTEN, SEAL_GROUP};
use crate::transaction::{
    commit_changes, commit_new, random_group_id, skip_block, wait_for_standby,
};
use crate::write_health::{READY_WITHIN, WriteHealth};

/// How long the writer tries to find the outcome of a group, counted from when the answer was lost.
const FINDING_PATIENCE: Duration = Duration::from_secs(20);

/// After a group of creates was rolled back, this many groups read the rows of their plants first. The usual reason is
/// a taken id. (A removed plant has a row too.) A client that creates existing plants usually does so repeatedly, and a
/// failed statement leaves dead rows.
const GROUPS_OF_DOUBT: u32 = 100;

/// Carries out groups of writes.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) sessions: Sessions,
    /// A committed block: groups that begin later have later blocks.
    last_block: Arc<AtomicI64>,
    /// How many of the next groups do not assume that ids are free.
    doubt: Arc<AtomicU32>,
    pub(super) health: Arc<WriteHealth>,
    /// Whether anything was written that upkeep has not seen.
    pub(super) has_written: Arc<AtomicBool>,
}

/// Why a part of a group is not tried again.
enum GivenUp {
    /// PostgreSQL refuses something in this part, and takes other writes.
    Refused(StoreFailure),
    /// No part of the group can be carried out.
    All(StoreError),
}

/// Why a try failed.
enum Failed {
    /// The try wrote nothing.
    WithoutTrace(SessionError),
    /// It is unknown whether the try wrote anything.
    Unknown(SessionError),
}

impl From<SessionError> for Failed {
    fn from(error: SessionError) -> Self {
        Self::WithoutTrace(error)
    }
}

impl Writer {
    pub(super) fn new(sessions: Sessions, last_block: i64) -> Self {
        Self {
            sessions,
            last_block: Arc::new(AtomicI64::new(last_block)),
            doubt: Arc::default(),
            health: Arc::default(),
            has_written: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Carries out writes of independent clients, and answers each. Gives up after a while on writes that cannot be
    /// carried out.
    pub(super) async fn carry_out(
        &self,
        writes: Vec<Write>,
        answer: &mut (dyn FnMut(usize, Result<Decision, StoreError>) + Send),
    ) {
        let less = |doubt: u32| doubt.checked_sub(1);
        let is_in_doubt =
            self.doubt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        let needs_a_look = |write: &&Write| is_in_doubt || !matches!(write, Write::Create(..));
        let to_read = writes.iter().filter(needs_a_look).map(Write::id).collect();
        self.carry_out_group(WriteGroup::new(writes, to_read, answer)).await;
    }

    /// Carries out writes in order, and returns their outcomes. If another client changes the same plants concurrently,
    /// writes of these plants may be carried out after later writes.
    pub(super) async fn carry_out_in_turn(
        &self,
        writes: Vec<Write>,
    ) -> Vec<Result<Decision, StoreError>> {
        // Each is replaced.
        let mut outcomes: Vec<_> = writes.iter().map(|_| Err(StoreError::Busy)).collect();
        let to_read = writes.iter().map(Write::id).collect();
        let mut answer = |place: usize, outcome| outcomes[place] = outcome;
        self.carry_out_group(WriteGroup::new(writes, to_read, &mut answer)).await;
        outcomes
    }

    async fn carry_out_group(&self, mut group: WriteGroup<'_>) {
        // A stack: the first part is the last element.
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
                    // Nothing of the other parts was sent.
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
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// Carries out one part of a group, and retries temporary failures for a while.
    async fn carry_out_part(&self, group: &mut WriteGroup<'_>) -> Result<(), GivenUp> {
        let (mut tries, mut was_stale) = (0, false);
        loop {
            let has_counted_on_ids = group.counts_on_ids();
            let error = match self.try_once(group).await {
                Ok(()) if group.is_done() => return Ok(()),
                Ok(()) => SessionError::Conflict("others change the same plants".to_owned()),
                Err(Failed::WithoutTrace(error)) => {
                    // Perhaps an id is taken.
                    group.read_all_next_time();
                    error
                }
                Err(Failed::Unknown(error)) => {
                    let failure = StoreFailure::new(anyhow!(error));
                    log::error!("the outcome of writes is unknown: {failure}");
                    return Err(GivenUp::All(failure.into()));
                }
            };
            let error = match error {
                SessionError::StaleStatement(_) if !was_stale => {
                    was_stale = true;
                    continue;
                }
                // The next try reads the ids that were assumed to be free: it rejects creates of taken ids, and others pass.
                SessionError::Conflict(_) if has_counted_on_ids => continue,
                SessionError::Refused(said) | SessionError::StaleStatement(said) => {
                    match self.judge_refusal(group, said).await? {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                error => error,
            };
            if group.last_answer.elapsed() > PATIENCE {
                return Err(GivenUp::All(self.give_up(error, &group.pending_ids()).await));
            }
            pause(tries).await;
            tries += 1;
        }
    }

    /// Distinguishes a refused write from a time when PostgreSQL takes no writes. `Ok` says to try again: at once after
    /// `Ok(())`, or after a pause because the rehearsal failed for another reason.
    async fn judge_refusal(
        &self,
        group: &mut WriteGroup<'_>,
        said: String,
    ) -> Result<Result<(), SessionError>, GivenUp> {
        let cause = StoreFailure::new(anyhow!(SessionError::Refused(said)));
        let others_are_taken = *group.others_are_taken.get_or_insert(false);
        // Halves that are carried out prove the same as a rehearsal.
        if others_are_taken || group.halves().is_some() {
            return Err(GivenUp::Refused(cause));
        }
        match self.health.rehearse(&self.sessions, &group.pending_ids()).await {
            Ok(()) => {
                // One more try tells whether the write is still refused.
                group.others_are_taken = Some(true);
                Ok(Ok(()))
            }
            Err(SessionError::Refused(_) | SessionError::StaleStatement(_)) => {
                self.health.note_no_writes(&cause);
                Err(GivenUp::All(StoreError::Unavailable(cause)))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// The outcome of writes of these plants that were not carried out and are not tried again.
    async fn give_up(&self, error: SessionError, ids: &BTreeSet<PlantId>) -> StoreError {
        log::warn!("writes are given up, and were not carried out: {error}");
        let takes_no_writes = match &error {
            // If the sequence is behind, every group conflicts with a block that is there already.
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

    /// Carries out the pending writes, except those of plants that another client changes concurrently.
    async fn try_once(&self, group: &mut WriteGroup<'_>) -> Result<(), Failed> {
        let session = self.sessions.get().await?;
        group.read(&session).await?;
        let plan = group.plan();
        if plan.rows.is_empty() {
            if plan.decided.iter().any(|(_, decided)| decided.is_ok()) {
                wait_for_standby(&session).await?;
            }
            return Ok(group.accept(plan, &Committed::default())?);
        }
        let group_id = random_group_id()?;
        let last_block = self.last_block.load(Ordering::Relaxed);
        let warnings = session.warnings.count();
        let committed = match self.commit(&session, &group_id, &plan).await {
            Ok(committed) => {
                if session.warnings.count() != warnings {
                    // Perhaps an administrator has canceled the wait for the standby.
                    wait_for_standby(&session).await.map_err(Failed::Unknown)?;
                }
                committed
            }
            Err(error @ SessionError::NoAnswer(_)) => {
                drop(session);
                let found = self.find_committed(&group_id, last_block).await;
                found.map_err(Failed::Unknown)?.ok_or(error)?
            }
            Err(error) => {
                skip_block(&session).await;
                return Err(error.into());
            }
        };
        self.last_block.fetch_max(committed.block, Ordering::Relaxed);
        group.others_are_taken = group.others_are_taken.map(|_| true);
        self.health.note_written(&committed.written);
        Ok(group.accept(plan, &committed)?)
    }

    /// Commits the rows that have not changed since they were read, and their events. After
    /// [`NoAnswer`](SessionError::NoAnswer), the outcome is unknown.
    async fn commit(
        &self,
        session: &Session,
        group_id: &[u8],
        plan: &Plan,
    ) -> Result<Committed, SessionError> {
        let [new, changed] = RowColumns::of(&plan.rows);
        let events = EventColumns::of(&plan.events);
        if !changed.ids.is_empty() {
            return commit_changes(session, group_id, &new, &changed, &events).await;
        }
        let committed = commit_new(session, group_id, &new, &events).await;
        if let Err(SessionError::Conflict(_)) = committed {
            self.doubt.store(GROUPS_OF_DOUBT, Ordering::Relaxed);
        }
        committed
    }

    /// Finds out whether a group, whose block is later than `last_block`, is committed, and makes the answer final.
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
            let forgotten = session.rows(FORGOTTEN, &[]).await?;
            let forgotten: i64 = forgotten.first().map_or(Ok(0), |row| row.try_get(0))?;
            if forgotten > last_block {
                let cause = "its events may have been there, and be forgotten: keep more events";
                return Err(SessionError::Refused(cause.to_owned()));
            }
            return Ok(None);
        }
        wait_for_standby(&session).await?;
        // The block that the seal would have had.
        skip_block(&session).await;
        Ok(Some(Committed { block, written: ids.into_iter().map(PlantId::from).collect() }))
    }
}
