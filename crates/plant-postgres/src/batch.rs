//! Carries out batches: all of their writes in one transaction, with one block of events, or none.
//!
//! The transaction locks the rows of the batch before it reads them, so clients that change the same plants all the time
//! delay a batch, but cannot keep it from being carried out. New rows cannot be locked: if another client creates one
//! of these plants first, the transaction is rolled back, and the batch is decided again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use plant_domain::PlantId;
use plant_store::{
    BATCH_MAX_WRITES, Batch, BatchError, IdempotencyDigest, StoreError, StoredResult, Written,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::attempts::{Attempts, Next};
use crate::group::{NotWritten, present_rows};
use crate::history::versions;
use crate::plan::{Committed, Plan};
use crate::reader::PostgresReader;
use crate::sessions::{PATIENCE, Session, SessionError};
use crate::statements::{EARLIER_BATCH, EVENTS_IN_A_BLOCK, LOCK_PLANTS_WITH_IDS};
use crate::transaction::{Course, wait_for_standby};
use crate::writer::Writer;

const _: () = assert!(BATCH_MAX_WRITES as u64 <= EVENTS_IN_A_BLOCK.unsigned_abs());

/// How many batches may be carried out at once. The others wait, so that groups have a session left.
const BATCHES_AT_ONCE: usize = 2;

/// How many batches may wait or be carried out. Further ones fail at once ([`StoreError::Busy`]).
const MOST_BATCHES: usize = 32;

/// The turns of batches.
#[derive(Debug)]
pub(super) struct BatchQueue {
    places: Arc<Semaphore>,
    at_once: Semaphore,
    /// The turns of all groups.
    turns: Arc<Semaphore>,
}

impl BatchQueue {
    pub(super) fn new(turns: Arc<Semaphore>) -> Self {
        let places = Arc::new(Semaphore::new(MOST_BATCHES));
        Self { places, at_once: Semaphore::new(BATCHES_AT_ONCE), turns }
    }

    /// A place for a batch, which it keeps until it is carried out.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| StoreError::Busy)
    }

    /// Carries out a batch that has a place. While PostgreSQL is unreachable, each takes long, so batches that have
    /// waited for [`PATIENCE`] fail ([`StoreError::Busy`]).
    pub(super) async fn carry_out(
        &self,
        writer: &Writer,
        reader: &PostgresReader,
        batch: &Batch,
    ) -> Result<Vec<Written>, BatchError> {
        let turn =
            timeout(PATIENCE, async { (self.at_once.acquire().await, self.turns.acquire().await) });
        let Ok((Ok(_at_once), Ok(_turn))) = turn.await else {
            return Err(StoreError::Busy.into());
        };
        writer.carry_out_batch(reader, batch).await
    }
}

/// How an attempt ends.
type Outcome = Result<Vec<Written>, BatchError>;

/// What the transaction of a batch has found before it writes.
enum Found {
    /// The batch was carried out before: its block, and its results.
    Earlier(i64, Vec<u8>),
    Refused(BatchError),
    Unchanged(Plan),
    /// With the digest and the encoded results, for a retry.
    Changes(Plan, Option<([u8; IdempotencyDigest::BYTES], Vec<u8>)>),
}

impl Writer {
    async fn carry_out_batch(&self, reader: &PostgresReader, batch: &Batch) -> Outcome {
        batch.check()?;
        let ids: BTreeSet<PlantId> = batch.writes.iter().map(|write| write.id()).collect();
        let begun = Instant::now();
        let mut not_written = NotWritten::default();
        let (mut attempts, mut was_refused) = (Attempts::default(), false);
        loop {
            let error = match self.try_batch(reader, batch, &ids, &mut not_written).await {
                Ok(outcome) => return outcome,
                Err(error) => error,
            };
            let error = match attempts.next(error) {
                Next::TryAgain => continue,
                Next::TryLater(error) => error,
                Next::Unknown(error) => return Err(error.into()),
                Next::Refused(cause) => match self.health.rehearse(&self.sessions, &ids).await {
                    // One more attempt tells whether PostgreSQL still refuses the batch.
                    Ok(()) if !was_refused => {
                        was_refused = true;
                        continue;
                    }
                    Ok(()) => return Err(StoreError::Refused(cause).into()),
                    Err(SessionError::Refused(_) | SessionError::StaleStatement(_)) => {
                        self.health.note_no_writes(&cause);
                        return Err(StoreError::Unavailable(cause).into());
                    }
                    Err(error) => error,
                },
            };
            if !attempts.pause(begun).await {
                return Err(self.give_up(error, &ids).await.into());
            }
            self.metrics.retries.inc();
        }
    }

    async fn try_batch(
        &self,
        reader: &PostgresReader,
        batch: &Batch,
        ids: &BTreeSet<PlantId>,
        not_written: &mut NotWritten,
    ) -> Result<Outcome, SessionError> {
        let session = self.sessions.get().await?;
        let found = read(&session, batch, ids).await;
        if !matches!(found, Ok(Found::Changes(..))) {
            session.roll_back().await;
        }
        match found? {
            Found::Refused(refusal) => Ok(Err(refusal)),
            Found::Earlier(block, results) => {
                wait_for_standby(&session).await?;
                repeated(reader, batch, block, &results).await
            }
            Found::Unchanged(plan) => {
                wait_for_standby(&session).await?;
                Ok(Ok(results(plan, &Committed::default())))
            }
            Found::Changes(plan, stored) => {
                let stored = stored.as_ref().map(|(digest, results)| (&digest[..], &results[..]));
                let attempted = Instant::now();
                let committed = self.commit(session, &plan, Course::CommitAll, stored).await?;
                if Course::CommitAll.rolls_back(&committed, &plan) {
                    let Plan { mut rows, .. } = plan;
                    rows.retain(|id, _| !committed.written.contains(id));
                    not_written.note(rows)?;
                    let cause = "other clients create the same plants";
                    return Err(SessionError::Conflict(cause.to_owned()));
                }
                self.note_committed(&committed, attempted);
                Ok(Ok(results(plan, &committed)))
            }
        }
    }
}

/// Begins the transaction, locks and reads the plants, and decides the writes.
///
/// An earlier batch with the same digest is looked for after the plants are locked. In the other order, it could be
/// committed while this one waits for the locks: this one would miss it, and decide on its results. If the earlier batch
/// is committed even later, the unique index on digests refuses this one.
async fn read(
    session: &Session,
    batch: &Batch,
    ids: &BTreeSet<PlantId>,
) -> Result<Found, SessionError> {
    session.answer(session.client()?.batch_execute("BEGIN")).await?;
    let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
    let present = present_rows(&session.rows(LOCK_PLANTS_WITH_IDS, &[&ids]).await?)?;
    let digest = batch.idempotency.map(IdempotencyDigest::to_bytes);
    if let Some(digest) = digest {
        let earlier = session.rows(EARLIER_BATCH, &[&digest.as_slice()]).await?;
        if let Some(row) = earlier.first() {
            return Ok(Found::Earlier(row.try_get(0)?, row.try_get(1)?));
        }
    }
    let writes = batch.writes.iter().map(|write| (write, batch.by.as_ref()));
    let plan = Plan::of(writes, &present);
    if let Some(refusal) = refusal(&plan) {
        return Ok(Found::Refused(refusal));
    }
    if plan.rows.is_empty() {
        return Ok(Found::Unchanged(plan));
    }
    let stored = match digest {
        Some(digest) => Some((digest, stored_results(&plan)?)),
        None => None,
    };
    Ok(Found::Changes(plan, stored))
}

/// The results for a retry of the batch. New revisions are placeholders, because the block has no number yet.
fn stored_results(plan: &Plan) -> Result<Vec<u8>, SessionError> {
    let encoded = StoredResult::encode(plan.decided.iter().flatten());
    encoded.map_err(|cause| SessionError::Refused(cause.to_string()))
}

/// The first write that is refused.
fn refusal(plan: &Plan) -> Option<BatchError> {
    let mut decided = plan.decided.iter().enumerate();
    decided.find_map(|(index, it)| Some(BatchError::Refused(index, it.as_ref().err()?.clone())))
}

fn results(plan: Plan, committed: &Committed) -> Vec<Written> {
    let decisions = plan.decided.into_iter().flatten();
    decisions.map(|decision| committed.with_revision(decision).into_written()).collect()
}

/// The results of a batch that was carried out before, in this block.
async fn repeated(
    reader: &PostgresReader,
    batch: &Batch,
    block: i64,
    results: &[u8],
) -> Result<Outcome, SessionError> {
    let damaged = |cause: String| SessionError::Refused(cause);
    let results = StoredResult::decode(results).map_err(|cause| damaged(cause.to_string()))?;
    let earlier = Committed { block, ..Committed::default() };
    let of_block = |result: StoredResult| result.map_revision(|planned| earlier.revision(planned));
    let results: Vec<_> = results.into_iter().map(of_block).collect();
    let needed = batch.writes.iter().zip(&results);
    let needed: Vec<_> = needed.filter_map(|(write, it)| it.needed_version(write)).collect();
    let known = versions(reader, &needed).await.map_err(|cause| damaged(format!("{cause:#}")))?;
    batch.repeated(&results, |id, revision| Ok(known.get(&(id, revision)).cloned()))
}
