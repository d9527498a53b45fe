//! The transaction that commits a group, and the steps that make its outcome certain.

use std::time::Duration;

use futures_util::future::{join, join3, join4};
use plant_domain::PlantId;
use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::ToSql;

use crate::event_columns::EventColumns;
use crate::plan::{Committed, Plan, RowColumns};
use crate::schema::COUNTER_SLOTS;
use crate::sessions::{Session, SessionError};
use crate::statements::{
    ADD_TO_COUNTER, BEGIN, CREATE_PLANTS, INSERT_EVENTS, INSERT_PLANTS, INSERT_TAG_CHANGES,
    SKIP_BLOCK, TAKE_BLOCK, TOUCH_COUNTER, UPDATE_PLANTS,
};

/// The length of a group's random id, in bytes.
const GROUP_ID_BYTES: usize = 16;

/// How long a reader of events waits for a missing block before it seals the block. Most blocks appear within the time
/// of a commit; the group of a sealed block must begin again.
pub(super) const LATE_COMMIT_PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn random_group_id() -> Result<[u8; GROUP_ID_BYTES], SessionError> {
    let mut group_id = [0; GROUP_ID_BYTES];
    getrandom::fill(&mut group_id).map_err(|cause| SessionError::Refused(cause.to_string()))?;
    Ok(group_id)
}

/// What the row of a block says about its group, besides the events.
#[derive(Clone, Copy)]
pub(super) struct GroupRecord<'a> {
    /// Finds the group if the answer to its commit is lost.
    pub(super) group_id: &'a [u8],
    /// The digest and the results of a batch with an idempotency key.
    pub(super) batch: Option<(&'a [u8], &'a [u8])>,
}

/// A random counter row, so that concurrent groups rarely wait for each other.
fn counter_slot() -> i32 {
    fastrand::i32(0..COUNTER_SLOTS)
}

/// Commits rows that are all new, in one statement.
pub(super) async fn commit_new(
    session: &Session,
    group_id: &[u8],
    new: &RowColumns<'_>,
    events: &EventColumns<'_>,
) -> Result<Committed, SessionError> {
    let slot = counter_slot();
    let (tags, more) = new.tag_changes.sums();
    let counts: [&(dyn ToSql + Sync); 4] = [&slot, &events.more_plants, &tags, &more];
    let parameters = [&new.new_rows()[..], &[&group_id], &events.parameters(), &counts].concat();
    let row = session.row(CREATE_PLANTS, &parameters).await?;
    let written = new.ids.iter().copied().map(PlantId::from).collect();
    Ok(Committed { block: row.try_get(0)?, written })
}

/// How a transaction begins and ends, unless an error rolls it back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// Begins and commits, also if some of the rows were not written.
    Commit,
    /// Has begun. Commits if all rows were written, and rolls back otherwise.
    CommitAll,
    /// Begins and rolls back.
    RollBack,
}

impl Course {
    /// Whether nothing is committed, because some of the planned rows were not written.
    pub(super) fn rolls_back(self, written: &Committed, plan: &Plan) -> bool {
        self == Self::CommitAll && written.written.len() < plan.rows.len()
    }
}

/// Inserts rows with free ids, updates rows that have the expected revision, and inserts the events of the rows
/// written, in one transaction whose statements are sent together, but those of [`Course::CommitAll`] in two parts.
pub(super) async fn write_changes(
    session: &Session,
    record: GroupRecord<'_>,
    new: &RowColumns<'_>,
    changed: &RowColumns<'_>,
    events: &EventColumns<'_>,
    course: Course,
) -> Result<Committed, SessionError> {
    let slot = counter_slot();
    let GroupRecord { group_id, batch } = record;
    let (digest, results) = batch.unzip();
    let of_group: [&(dyn ToSql + Sync); 3] = [&group_id, &digest, &results];
    let of_events = [&of_group[..], &events.parameters()].concat();
    let of_counter: [&(dyn ToSql + Sync); 2] = [&slot, &group_id];
    let event_count = events.count();
    let tag_changes = new.tag_changes.and(&changed.tag_changes);
    let client = session.client()?;
    let prepare = |statement| {
        let statement = session.sql(statement);
        async move { client.prepare_cached(&statement).await }
    };
    let needs_all = course == Course::CommitAll;
    let begin = session.sql(if needs_all { TAKE_BLOCK } else { BEGIN });
    session
        .answer(async {
            let insert = prepare(INSERT_PLANTS).await?;
            let update = prepare(UPDATE_PLANTS).await?;
            let log = prepare(INSERT_EVENTS).await?;
            let tag = prepare(INSERT_TAG_CHANGES).await?;
            let count = prepare(ADD_TO_COUNTER).await?;
            let insert = async {
                if new.ids.is_empty() {
                    return Ok(Vec::new());
                }
                client.query(&insert, &new.new_rows()).await
            };
            let update = async { client.query(&update, &changed.changed_rows()).await };
            let begun = join3(client.simple_query(&begin), insert, update);
            let end = client.batch_execute(match course {
                Course::Commit | Course::CommitAll => "COMMIT",
                Course::RollBack => "ROLLBACK",
            });
            let tags = async {
                if tag_changes.is_empty() {
                    return Ok(Vec::new());
                }
                let planned: [&(dyn ToSql + Sync); 1] = [&event_count];
                client.query(&tag, &[&tag_changes.parameters()[..], &planned].concat()).await
            };
            let logged = async {
                let log = client.query(&log, &of_events);
                let count = client.query(&count, &of_counter);
                let (log, tags, count, end) = join4(log, tags, count, end).await;
                log?;
                tags?;
                count?;
                end
            };
            // Sent in the order of the first polls, which is that of the arguments: BEGIN, the rows, the events, the
            // end. In another order, rows would be written outside of the transaction.
            let (begun, logged) = if needs_all {
                let begun = begun.await;
                let written = [&begun.1, &begun.2].map(|rows| rows.as_ref().map_or(0, Vec::len));
                let is_all = written == [new.ids.len(), changed.ids.len()];
                let logged =
                    if is_all { logged.await } else { client.batch_execute("ROLLBACK").await };
                (begun, logged)
            } else {
                join(begun, logged).await
            };
            let (begun, inserted, updated) = begun;
            let block = begun?.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
                _ => None,
            });
            let (inserted, updated) = (inserted?, updated?);
            logged?;
            let ids = inserted.iter().chain(&updated);
            let written = ids.map(|row| Ok(PlantId::from(row.try_get::<_, i64>(0)?)));
            let written = written.collect::<Result<_, tokio_postgres::Error>>()?;
            Ok(block.map(|block| Committed { block, written }))
        })
        .await?
        .ok_or_else(|| SessionError::NoAnswer("the number of the block is missing".to_owned()))
}

/// Fills the block of the transaction that this session has just rolled back; otherwise, readers of events would wait
/// for a late commit. No seal is needed: no transaction has the block, and the sequence, which reaches the disk first,
/// never gives its number again. If filling fails or takes too long, readers seal the block.
pub(super) async fn skip_block(session: &Session) {
    match timeout(LATE_COMMIT_PATIENCE, session.rows(SKIP_BLOCK, &[])).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => log::debug!("a block of events is missing: {error}"),
        Err(_) => log::debug!("a block of events is missing: filling it takes too long"),
    }
}

/// Waits until all visible changes are as durable as acknowledged ones. With synchronous replication, a commit becomes
/// visible before the standby has it if its session ends during the wait. This function commits once more, which waits
/// until the standby has all earlier commits too.
pub(super) async fn wait_for_standby(session: &Session) -> Result<(), SessionError> {
    let warnings = session.warnings();
    session.rows(TOUCH_COUNTER, &[&counter_slot()]).await?;
    if session.warnings() == warnings {
        return Ok(());
    }
    // PostgreSQL warns when an administrator cancels a wait for the standby, perhaps this one.
    Err(SessionError::NoAnswer("PostgreSQL warned of a commit".to_owned()))
}
