//! The import: many plants, row by row, in bounded memory.

use std::mem;
use std::pin::pin;
use std::rc::Rc;

use actix_web::HttpResponse;
use actix_web::web::{Data, ReqData};
use plant_domain::{Error, NewPlant, PlantId};
use plant_store::{Imported, OnConflict, StoreError};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::BodyStream;
use crate::extract::head::Head;
use crate::extract::query::ImportParameters;
use crate::extract::rows::{ReadRow, RowReader, row_reader};
use crate::handlers::Repository;
use crate::handlers::import_report::{FailedRow, ImportReport, way_to_go_on};
use crate::limits::REPORT_MAX_ERRORS;
use crate::middleware::audit::AuditedWrites;
use crate::middleware::context::{ImportCounts, RequestContext};
use crate::server::drain::Draining;

/// The most rows that the repository gets at a time.
const BATCH_ROWS: usize = 1024;

/// `POST /plants/import`.
///
/// Rows are independent: a row that fails does not stop the others. The body may take any time, as long as its next
/// part arrives within [`BODY_IDLE_DEADLINE`](crate::limits::BODY_IDLE_DEADLINE).
pub(crate) async fn import(
    repository: Repository,
    draining: Data<Draining>,
    context: ReqData<Rc<RequestContext>>,
    parameters: Result<Head<ImportParameters>, Failure>,
    mut body: BodyStream,
) -> Result<HttpResponse, Failure> {
    let Head(ImportParameters { on_conflict, format }) = match parameters {
        Ok(parameters) => parameters,
        Err(failure) => {
            // A client that is still sending would miss the answer.
            body.discard().await;
            return Err(failure);
        }
    };
    context.count_import(|_| {});
    let mut import = Import {
        repository,
        context: context.into_inner(),
        on_conflict,
        draining,
        failed_rows: Vec::new(),
        has_logged_refusal: false,
    };
    let imported = import.run(row_reader(format), &mut body).await;
    let stop = import.draining.imports_stop();
    tokio::select! {
        () = body.discard() => {}
        // The drain has no time left for reading.
        () = stop => {}
    }
    match imported {
        Ok(()) => Ok(HttpResponse::Ok().json(import.report())),
        Err(failure) => Err(import.explain(failure)),
    }
}

struct Import {
    repository: Repository,
    context: Rc<RequestContext>,
    on_conflict: OnConflict,
    draining: Data<Draining>,
    /// The first [`REPORT_MAX_ERRORS`] of the failed rows.
    failed_rows: Vec<FailedRow>,
    /// Only the first refusal of the database is logged with its reason: logging one for each row would flood the
    /// log.
    has_logged_refusal: bool,
}

impl Import {
    async fn run(
        &mut self,
        mut rows: Box<dyn RowReader>,
        body: &mut BodyStream,
    ) -> Result<(), Failure> {
        let mut batch = Vec::new();
        let mut stop = pin!(self.draining.imports_stop());
        loop {
            let part = tokio::select! {
                biased;
                () = &mut stop => Err(StoreError::Closed.into()),
                part = body.next() => part,
            };
            // An import may take hours, and its token may be revoked during that time.
            self.context.check_still_valid()?;
            let read = match &part {
                Ok(Some(part)) => rows.read(part, &mut batch),
                Ok(None) => rows.finish(&mut batch),
                // Complete rows are stored; the truncated row is not.
                Err(_) => Ok(()),
            };
            let is_last = !matches!(part, Ok(Some(_))) || read.is_err() || rows.is_stopped();
            // Complete rows are written to disk while the client sends more.
            if is_last || batch.len() >= BATCH_ROWS || !body.is_next_there() {
                self.take(&mut batch).await?;
            }
            if is_last {
                part?;
                return read.map_err(|error| Failure::new(ErrorNumber::WrongShape, error.message));
            }
        }
    }

    /// Gives rows to the repository, and adds their results to the report.
    async fn take(&mut self, rows: &mut Vec<ReadRow>) -> Result<(), Failure> {
        while !rows.is_empty() {
            let batch = rows.drain(..rows.len().min(BATCH_ROWS));
            let mut new_plants = Vec::with_capacity(batch.len());
            let mut taken = Vec::with_capacity(batch.len());
            for (line, plant) in batch {
                let id = plant.map(|new_plant| {
                    let id = new_plant.id();
                    new_plants.push(new_plant);
                    id
                });
                taken.push((line, id));
            }
            let mut imported = Vec::new();
            if !new_plants.is_empty() {
                let audited =
                    AuditedWrites::of_import(&self.context, new_plants.iter().map(NewPlant::id));
                imported = self
                    .repository
                    .import(new_plants, self.on_conflict, self.context.author())
                    .await
                    .map_err(failure_of_import)?;
                audited.end(imported.iter().map(outcome));
            }
            let mut imported = imported.into_iter();
            for (line, id) in taken {
                match id {
                    Ok(id) => self.count(line, id, imported.next().ok_or(ErrorNumber::Internal)?),
                    Err(error) => self.fail(line, error),
                }
            }
        }
        Ok(())
    }

    /// Counts a row that the repository has got.
    fn count(&mut self, line: u64, id: PlantId, imported: Imported) {
        match imported {
            Imported::Created => self.context.count_import(|counts| counts.created += 1),
            Imported::Replaced => self.context.count_import(|counts| counts.replaced += 1),
            Imported::Skipped => self.context.count_import(|counts| counts.skipped += 1),
            Imported::IdTaken => self.fail(line, Failure::from(StoreError::IdTaken(id)).into()),
            Imported::Refused(cause) => {
                if !mem::replace(&mut self.has_logged_refusal, true) {
                    // Only the first refusal is logged, because an import may have millions of them.
                    self.context.log_error(&format!("{cause} (plant {id})"));
                }
                self.fail(line, Failure::from(StoreError::Refused(cause)).into());
            }
        }
    }

    fn fail(&mut self, line: u64, error: Error) {
        self.context.count_import(|counts| counts.failed += 1);
        if self.failed_rows.len() < REPORT_MAX_ERRORS {
            self.failed_rows.push(FailedRow { line, error });
        }
    }

    fn report(self) -> ImportReport {
        let ImportCounts { created, replaced, skipped, failed, .. } = self.context.import_counts();
        ImportReport { created, replaced, skipped, failed, errors: self.failed_rows }
    }

    /// Adds to a failure how many rows were taken before it, and how to go on.
    fn explain(&self, failure: Failure) -> Failure {
        let ImportCounts { created, replaced, skipped, failed, .. } = self.context.import_counts();
        if created + replaced + skipped + failed == 0 {
            return failure;
        }
        // Messages of 5003 say that nothing was written, which is wrong here.
        let failure = match failure.number() {
            ErrorNumber::Busy if self.draining.has_begun() => {
                Failure::new(ErrorNumber::StoreFailed, "the server is shutting down")
            }
            ErrorNumber::Busy => {
                Failure::new(ErrorNumber::StoreFailed, "the store takes no more for now")
            }
            _ => failure,
        };
        let way = way_to_go_on(self.on_conflict);
        failure.and_say(&format!(
            "before that {created} plants were created, {replaced} replaced, {skipped} skipped and \
             {failed} failed; to go on, import all again with on_conflict={way}",
        ))
    }
}

/// The word of the audit log for a plant; `None` if nothing changed.
const fn outcome(imported: &Imported) -> Option<&'static str> {
    match imported {
        Imported::Created => Some("created"),
        Imported::Replaced => Some("replaced"),
        Imported::Skipped | Imported::IdTaken | Imported::Refused(_) => None,
    }
}

/// If the disk becomes full during a batch, some of its rows may have been written.
fn failure_of_import(error: StoreError) -> Failure {
    match error {
        StoreError::DiskFull(shortage) => Failure::new(
            ErrorNumber::StoreFailed,
            format!(
                "the disk of the store is full ({shortage}) and not all rows were written; make room on it, then import \
                 all again"
            ),
        ),
        error => error.into(),
    }
}
