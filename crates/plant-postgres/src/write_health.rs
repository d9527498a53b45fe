//! What PostgreSQL recently wrote and refused. This tells one refused write from a time when PostgreSQL takes no
//! writes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use plant_domain::{Plant, PlantId};
use plant_store::write::KeptPlant;
use plant_store::{EventKind, Revision, StoreFailure, StoredPlant};
use tokio::time::timeout;

use crate::event_columns::EventColumns;
use crate::group::KEPT;
use crate::plan::{PlannedRow, RowColumns};
use crate::sessions::{Session, SessionError, Sessions};
use crate::statements::{
    INSERT_PLANTS, NEWEST_PLANTS, PLANTS_WITH_IDS, SEAL_BLOCKS, SEAL_GROUP, UPDATE_PLANTS,
    stored_plant,
};
use crate::transaction::{
    Course, GroupRecord, random_group_id, skip_block, wait_for_standby, write_changes,
};

/// How many refused plants are remembered. One more, and all are forgotten.
const MOST_REFUSED: usize = 1024;

/// How long a refused plant is remembered.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// A write that takes longer than this makes the store unready.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(1);

/// How long after a failed write a successful rehearsal does not count, because a full disk may still have room for a
/// small change.
const NO_WRITES_FOR: Duration = Duration::from_secs(2);

/// How long the result of a check stays valid.
const CHECK_COUNTS_FOR: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct WriteHealth {
    state: Mutex<HealthState>,
    /// The time and the result of the last check. Concurrent callers wait for the same check.
    last_check: tokio::sync::Mutex<Option<(Instant, Result<(), StoreFailure>)>>,
}

#[derive(Debug, Default)]
struct HealthState {
    /// The plants of refused writes, and when they were refused.
    refused: HashMap<PlantId, Instant>,
    /// When and why PostgreSQL last took no writes, unless it has taken some since.
    no_writes: Option<(Instant, StoreFailure)>,
}

impl WriteHealth {
    /// Notes that these plants were written.
    pub(super) fn note_written(&self, ids: &BTreeSet<PlantId>) {
        let mut state = self.state();
        state.note_writes();
        if !state.refused.is_empty() {
            state.refused.retain(|id, _| !ids.contains(id));
        }
    }

    /// Notes that PostgreSQL refuses a write of this plant, and takes others.
    pub(super) fn note_refused(&self, id: PlantId) {
        let mut state = self.state();
        if state.refused.len() >= MOST_REFUSED {
            state.refused.clear();
        }
        state.refused.insert(id, Instant::now());
    }

    /// Whether a write of this plant was refused recently.
    pub(super) fn is_refused(&self, id: PlantId) -> bool {
        self.state().refused.get(&id).is_some_and(|since| since.elapsed() < REFUSED_FOR)
    }

    /// Notes that PostgreSQL takes no writes at all.
    pub(super) fn note_no_writes(&self, cause: &StoreFailure) {
        let mut state = self.state();
        if state.no_writes.is_none() {
            log::error!("PostgreSQL takes no writes: {cause}");
        }
        state.no_writes = Some((Instant::now(), cause.clone()));
    }

    /// Finds out whether PostgreSQL takes writes, and rolls them back. It may refuse any one plant, so several are
    /// tried until it takes one: a new plant, then up to four of the plants last written by any server, unchanged.
    /// `others` and plants remembered as refused are left out. If no plants remain, a write of nothing is enough.
    pub(super) async fn rehearse(
        &self,
        sessions: &Sessions,
        others: &BTreeSet<PlantId>,
    ) -> Result<(), SessionError> {
        write_nothing(sessions).await?;
        let refused: Vec<PlantId> = self.state().refused.keys().copied().collect();
        let unfit: Vec<i64> = others.iter().chain(&refused).map(|id| id.get()).collect();
        let rows = sessions.get().await?.rows(NEWEST_PLANTS, &[&unfit]).await?;
        // Rows that break the rules are not from this program.
        let mut plants: Vec<_> =
            rows.iter().filter_map(|row| stored_plant(row).ok().flatten()).collect();
        if !plants.is_empty() {
            plants.insert(0, new_plant()?);
        }
        let mut rehearsed = Ok(());
        for stored in plants {
            let session = sessions.get().await?;
            rehearsed = write_again(&session, stored).await;
            skip_block(&session).await;
            if !matches!(rehearsed, Err(SessionError::Refused(_) | SessionError::Conflict(_))) {
                break;
            }
        }
        rehearsed
    }

    /// Checks whether PostgreSQL takes writes. Commits a write that changes nothing; if PostgreSQL last took no writes,
    /// rehearses one instead. So the store notices by itself when PostgreSQL takes writes again.
    pub(super) async fn check_ready(&self, sessions: &Sessions) -> Result<(), StoreFailure> {
        let mut last_check = self.last_check.lock().await;
        if let Some((since, found)) = &*last_check
            && since.elapsed() < CHECK_COUNTS_FOR
            // A write that failed after a successful check outweighs the check.
            && (found.is_err() || self.no_writes().is_none())
        {
            return found.clone();
        }
        let found = match timeout(READY_WITHIN, self.check(sessions)).await {
            Ok(found) => found,
            Err(_) => Err(StoreFailure::new(anyhow!(
                "PostgreSQL does not answer: not within {} s",
                READY_WITHIN.as_secs()
            ))),
        };
        *last_check = Some((Instant::now(), found.clone()));
        found
    }

    async fn check(&self, sessions: &Sessions) -> Result<(), StoreFailure> {
        let check = async || match self.no_writes() {
            None => write_nothing(sessions).await,
            Some(_) => self.rehearse(sessions, &BTreeSet::new()).await,
        };
        let found = match check().await {
            // The second attempt prepares the statements again.
            Err(SessionError::StaleStatement(_)) => check().await,
            found => found,
        };
        found.map_err(|error| StoreFailure::new(anyhow!(error)))?;
        match self.no_writes() {
            None => Ok(()),
            Some((since, cause)) if since.elapsed() < NO_WRITES_FOR => Err(cause),
            Some(_) => {
                self.state().note_writes();
                Ok(())
            }
        }
    }

    fn no_writes(&self) -> Option<(Instant, StoreFailure)> {
        self.state().no_writes.clone()
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HealthState {
    fn note_writes(&mut self) {
        if self.no_writes.take().is_some() {
            log::info!("PostgreSQL takes writes again");
        }
    }
}

/// Inserts and updates no rows, and commits. Success shows that the tables exist, and that PostgreSQL takes commits.
async fn write_nothing(sessions: &Sessions) -> Result<(), SessionError> {
    let session = sessions.get().await?;
    let rows = RowColumns::default();
    session.rows(INSERT_PLANTS, &rows.new_rows()).await?;
    session.rows(UPDATE_PLANTS, &rows.changed_rows()).await?;
    session.rows(SEAL_BLOCKS, &[&1_i64, &0_i64]).await?;
    session.rows(SEAL_GROUP, &[&None::<&[u8]>]).await?;
    wait_for_standby(&session).await
}

/// A plant with an id that is not taken.
fn new_plant() -> Result<StoredPlant, SessionError> {
    let plant = Plant::new("rehearsal".to_owned(), None);
    let plant = plant.map_err(|cause| SessionError::Refused(cause.to_string()))?;
    Ok(StoredPlant { id: PlantId::from(fastrand::i64(..)), plant, revision: Revision::from(0) })
}

/// Writes a plant unchanged, as a new row and as a changed row, and rolls back.
async fn write_again(session: &Session, stored: StoredPlant) -> Result<(), SessionError> {
    let (id, revision) = (stored.id, stored.revision.get().cast_signed());
    let after = KeptPlant { stored, idempotency: None };
    let row =
        |before| PlannedRow { before, tag_before: None, after: Some(after.clone()), number: 0 };
    let (as_new, as_changed) = (row(None), row(Some(revision)));
    let [mut new, mut changed] = [RowColumns::default(), RowColumns::default()];
    new.push(id, &as_new);
    changed.push(id, &as_changed);
    let mut events = EventColumns::default();
    let members = after.stored.plant.members();
    events.push(EventKind::Updated, id, Some(members), None, Some(revision));
    let record = GroupRecord { group_id: &random_group_id()?, batch: None };
    let written =
        write_changes(session, record, &new, &changed, &events, Course::RollBack).await?.written;
    if written.contains(&id) {
        return Ok(());
    }
    let ids: &[i64] = &[id.get()];
    let rows = session.rows(PLANTS_WITH_IDS, &[&ids]).await?;
    let now: Option<i64> = rows.first().map(|row| row.try_get(1)).transpose()?;
    // If another client has changed the plant since it was read, PostgreSQL takes writes.
    if now > Some(revision) {
        return Ok(());
    }
    Err(SessionError::Refused(format!("a row was not written: {KEPT}")))
}
