//! Finds out whether PostgreSQL takes writes, without changing any plant.

use plant_domain::PlantId;
use plant_store::EventKind;
use tokio_postgres::types::ToSql;

use crate::columns::{EventColumns, RowColumns, Sample};
use crate::group::{KEPT, PlannedEvent};
use crate::sessions::{Session, SessionError, Sessions};
use crate::statements::{
    ADD_TO_COUNTER, BEGIN, INSERT_EVENTS, INSERT_PLANTS, NEWEST_PLANTS, PLANTS_WITH_IDS,
    SEAL_BLOCKS, SEAL_GROUP, UPDATE_PLANTS,
};
use crate::transaction::{counter_slot, random_group_id, skip_block, wait_for_standby};

/// Inserts and updates no rows, and commits. Success shows that the tables exist and that PostgreSQL takes commits.
pub(super) async fn write_nothing(sessions: &Sessions) -> Result<(), SessionError> {
    let session = sessions.get().await?;
    let rows = RowColumns::default();
    session.rows(INSERT_PLANTS, &rows.new_rows()).await?;
    session.rows(UPDATE_PLANTS, &rows.changed_rows()).await?;
    session.rows(SEAL_BLOCKS, &[&1_i64, &0_i64]).await?;
    session.rows(SEAL_GROUP, &[&None::<&[u8]>]).await?;
    wait_for_standby(&session).await
}

/// Finds out whether PostgreSQL takes writes of plants other than `unfit`: writes a plant again as it is, and rolls back.
/// PostgreSQL may refuse this one plant, or another server change it, so up to four of the plants that any server has
/// written last are tried. If there is none, a write of nothing is enough.
pub(super) async fn rehearse(
    sessions: &Sessions,
    unfit: impl Iterator<Item = PlantId>,
) -> Result<(), SessionError> {
    write_nothing(sessions).await?;
    let unfit: Vec<i64> = unfit.map(PlantId::get).collect();
    let rows = sessions.get().await?.rows(NEWEST_PLANTS, &[&unfit]).await?;
    let mut rehearsed = Ok(());
    for row in &rows {
        let sample = Sample::of_row(row)?;
        let session = sessions.get().await?;
        rehearsed = write_sample(&session, &sample).await;
        session.roll_back().await;
        skip_block(&session).await;
        if !matches!(rehearsed, Err(SessionError::Refused(_) | SessionError::Conflict(_))) {
            break;
        }
    }
    rehearsed
}

/// Writes a plant in a transaction, and leaves the transaction open.
async fn write_sample(session: &Session, sample: &Sample) -> Result<(), SessionError> {
    let begin = session.sql(BEGIN);
    session.answer(session.client()?.simple_query(&begin)).await?;
    // The last revision of the block before: an update gives the plant a later one.
    let columns = RowColumns::of_sample(sample, -1, None);
    session.rows(INSERT_PLANTS, &columns.new_rows()).await?;
    let not_written = || SessionError::Refused(format!("a row was not written: {KEPT}"));
    let revision = revision_of(session, sample.id).await?;
    if revision.is_none() {
        return Err(not_written());
    }
    let columns = RowColumns::of_sample(sample, 0, revision);
    if session.rows(UPDATE_PLANTS, &columns.changed_rows()).await?.is_empty() {
        // Another server may have changed the plant since its revision was read.
        return Err(match revision_of(session, sample.id).await? == revision {
            true => not_written(),
            false => SessionError::Conflict("others change the same plant".to_owned()),
        });
    }
    let group_id = random_group_id()?;
    let group_id = group_id.as_slice();
    let event = PlannedEvent { number: 0, kind: EventKind::Updated, id: sample.id.into() };
    let events = EventColumns::of(&[event]);
    let of_events = [&[&group_id as &(dyn ToSql + Sync)], &events.parameters()[..]].concat();
    session.rows(INSERT_EVENTS, &of_events).await?;
    session.rows(ADD_TO_COUNTER, &[&counter_slot(), &group_id]).await?;
    Ok(())
}

/// The revision in the row of a plant, if there is one.
async fn revision_of(session: &Session, id: i64) -> Result<Option<i64>, SessionError> {
    let ids: &[i64] = &[id];
    let rows = session.rows(PLANTS_WITH_IDS, &[&ids]).await?;
    Ok(rows.first().map(|row| row.try_get(1)).transpose()?)
}
