//! Taking many plants, row by row, in bounded memory.

use std::mem;
use std::pin::pin;

use actix_web::HttpResponse;
use actix_web::web::Data;
use plant_domain::NewPlant;
use plant_store::{Imported, OnConflict, PlantRepository, StoreError};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::BodyStream;
use crate::extract::caller::Caller;
use crate::extract::import_parameters::ImportParameters;
use crate::extract::rows::{Row, Rows};
use crate::handlers::import_report::{ImportReport, way_to_go_on};
use crate::middleware::audit::AuditedImport;
use crate::middleware::context::ImportCounts;
use crate::server::drain::Draining;

/// How many rows go to the repository at a time, at most.
const BATCH_ROWS: usize = 1024;

/// `POST /plants/import`.
///
/// Each row stands alone: what is wrong with one keeps none of the others. The client has to send
/// something now and then, but may take as long as it likes for all of it.
pub(crate) async fn import(
    repository: Data<dyn PlantRepository>,
    draining: Data<Draining>,
    caller: Caller,
    parameters: Result<ImportParameters, Failure>,
    mut body: BodyStream,
) -> Result<HttpResponse, Failure> {
    let ImportParameters { on_conflict, format } = match parameters {
        Ok(parameters) => parameters,
        Err(failure) => {
            // A client that still sends would miss the answer.
            body.discard().await;
            return Err(failure);
        }
    };
    caller.context().count_import(|_| {});
    let report = ImportReport::default();
    let mut import =
        Import { repository, caller, on_conflict, draining, report, has_logged_refusal: false };
    let imported = import.run(Rows::new(format), &mut body).await;
    let stop = import.draining.imports_stop();
    tokio::select! {
        () = body.discard() => {}
        // There is no time left for that.
        () = stop => {}
    }
    match imported {
        Ok(()) => Ok(HttpResponse::Ok().json(import.report)),
        Err(failure) => Err(import.explain(failure)),
    }
}

struct Import {
    repository: Data<dyn PlantRepository>,
    caller: Caller,
    on_conflict: OnConflict,
    draining: Data<Draining>,
    report: ImportReport,
    /// The log has the reason for the first row that the database refuses. Those of all would fill it.
    has_logged_refusal: bool,
}

impl Import {
    async fn run(&mut self, mut rows: Rows, body: &mut BodyStream) -> Result<(), Failure> {
        let mut batch = Vec::new();
        let mut stop = pin!(self.draining.imports_stop());
        loop {
            let part = tokio::select! {
                biased;
                () = &mut stop => Err(StoreError::Closed.into()),
                part = body.next() => part,
            };
            // An import may take hours, and its token be revoked meanwhile.
            self.caller.check_still_valid()?;
            let read = match &part {
                Ok(Some(part)) => rows.read(part, &mut batch),
                Ok(None) => rows.finish(&mut batch),
                // The rows that came whole are taken, and the one that was cut is not.
                Err(_) => Ok(()),
            };
            let is_last = !matches!(part, Ok(Some(_))) || read.is_err() || rows.is_stopped();
            // What is there goes to the disk while the client sends on.
            if is_last || batch.len() >= BATCH_ROWS || !body.is_next_there() {
                self.take(&mut batch).await?;
            }
            if is_last {
                part?;
                return read;
            }
        }
    }

    /// Gives rows to the repository, and reports what became of them.
    async fn take(&mut self, rows: &mut Vec<Row>) -> Result<(), Failure> {
        while !rows.is_empty() {
            let batch = rows.drain(..rows.len().min(BATCH_ROWS));
            let mut new_plants = Vec::with_capacity(batch.len());
            let mut taken = Vec::with_capacity(batch.len());
            for Row { line, plant } in batch {
                let id = plant.map(|new_plant| {
                    let id = new_plant.id();
                    new_plants.push(new_plant);
                    id
                });
                taken.push((line, id));
            }
            let mut imported = Vec::new();
            if !new_plants.is_empty() {
                let audited = AuditedImport::begin(
                    self.caller.context(),
                    new_plants.iter().map(NewPlant::id),
                );
                imported = self
                    .repository
                    .import(new_plants, self.on_conflict)
                    .await
                    .map_err(failure_of_import)?;
                audited.end(&imported);
            }
            let mut imported = imported.into_iter();
            for (line, id) in taken {
                match id {
                    Ok(id) => {
                        let imported = imported.next().ok_or(ErrorNumber::Internal)?;
                        if let Imported::Refused(cause) = &imported
                            && !mem::replace(&mut self.has_logged_refusal, true)
                        {
                            log::error!("{cause}: {} plant={id}", self.caller);
                        }
                        self.report.add(line, id, imported);
                    }
                    Err(failure) => self.report.add_failed(line, failure),
                }
            }
            let ImportReport { created, replaced, skipped, failed, errors: _ } = self.report;
            self.caller.context().count_import(|counts| {
                *counts = ImportCounts { created, replaced, skipped, failed, ..*counts };
            });
        }
        Ok(())
    }

    /// An import that ends early leaves what was taken until then.
    fn explain(&self, failure: Failure) -> Failure {
        let ImportReport { created, replaced, skipped, failed, errors: _ } = &self.report;
        if created + replaced + skipped + failed == 0 {
            return failure;
        }
        // That says that nothing was written.
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

/// When the disk becomes full during a batch, some of its rows may have been written.
fn failure_of_import(error: StoreError) -> Failure {
    match error {
        StoreError::DiskFull => Failure::new(
            ErrorNumber::StoreFailed,
            "the disk of the store is full and not all rows were written; make room on it, then import all again",
        ),
        error => error.into(),
    }
}
