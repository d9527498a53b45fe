//! Imports: many writes, a group at a time.

use anyhow::anyhow;
use plant_store::write::{Write, imported};
use plant_store::{Author, Imported, OnConflict, StoreError, StoreFailure};

use crate::group::MAX_GROUP;
use crate::writer::Writer;

/// Carries out the writes of an import in order.
pub(super) async fn import(
    writer: &Writer,
    mut writes: Vec<Write>,
    on_conflict: OnConflict,
    by: Option<&Author>,
) -> Result<Vec<Imported>, StoreError> {
    let mut all = Vec::with_capacity(writes.len());
    while !writes.is_empty() {
        let rest = writes.split_off(writes.len().min(MAX_GROUP));
        let outcomes = writer.carry_out_in_turn(writes, by).await;
        let is_nothing_written = all.is_empty() && outcomes.iter().all(Result::is_err);
        for outcome in outcomes {
            all.push(match imported(outcome, on_conflict) {
                // These errors promise that nothing was written, but a part of the import was written.
                Err(StoreError::Busy | StoreError::Unavailable(_)) if !is_nothing_written => {
                    let cause = anyhow!("PostgreSQL takes no more of an import for now");
                    return Err(StoreFailure::new(cause).into());
                }
                imported => imported?,
            });
        }
        writes = rest;
    }
    Ok(all)
}
