//! Taking many plants, row by row, in bounded memory.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use plant_domain::Error;
use plant_store::{Imported, OnConflict, PlantRepository, StoreError};
use serde::Serialize;

use crate::body::BodyStream;
use crate::failure::Failure;
use crate::parameters;
use crate::rows::{Row, Rows};
use crate::transfer_format::TransferFormat;

/// The most failed rows that a report lists. It counts all of them.
pub const REPORT_MAX_ERRORS: usize = 1000;

/// How many rows go to the repository at a time, at most.
const BATCH_ROWS: usize = 1024;

/// `POST /plants/import`.
///
/// Each row stands alone: what is wrong with one keeps none of the others. The client has to send
/// something now and then, but may take as long as it likes for all of it.
pub(crate) async fn import(
    request: HttpRequest,
    repository: Data<dyn PlantRepository>,
    mut body: BodyStream,
) -> Result<HttpResponse, Failure> {
    let asked = parameters::on_conflict(&request)
        .and_then(|on_conflict| Ok((on_conflict, TransferFormat::of_body(request.headers())?)));
    let (on_conflict, format) = match asked {
        Ok(asked) => asked,
        Err(failure) => {
            body.discard().await;
            return Err(failure);
        }
    };
    let mut import = Import { repository, on_conflict, report: Report::default() };
    match import.run(Rows::new(format), &mut body).await {
        Ok(()) => Ok(HttpResponse::Ok().json(import.report)),
        Err(failure) => Err(import.report.explain(failure)),
    }
}

struct Import {
    repository: Data<dyn PlantRepository>,
    on_conflict: OnConflict,
    report: Report,
}

impl Import {
    async fn run(&mut self, mut rows: Rows, body: &mut BodyStream) -> Result<(), Failure> {
        let mut batch = Vec::new();
        loop {
            let part = body.next().await;
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
                body.discard().await;
                return read;
            }
        }
    }

    /// Gives rows to the repository, and reports what became of them.
    async fn take(&mut self, rows: &mut Vec<Row>) -> Result<(), Failure> {
        let mut new_plants = Vec::with_capacity(rows.len());
        let mut taken = Vec::with_capacity(rows.len());
        for Row { line, plant } in rows.drain(..) {
            let id = plant.map(|new_plant| {
                let id = new_plant.id();
                new_plants.push(new_plant);
                id
            });
            taken.push((line, id));
        }
        if taken.is_empty() {
            return Ok(());
        }
        let imported = self.repository.import(new_plants, self.on_conflict).await?;
        let mut imported = imported.into_iter();
        for (line, id) in taken {
            let became = id.and_then(|id| match imported.next() {
                Some(Imported::IdTaken) | None => Err(StoreError::IdTaken(id).into()),
                Some(imported) => Ok(imported),
            });
            self.report.add(line, became);
        }
        Ok(())
    }
}

/// What became of the rows.
#[derive(Default, Serialize)]
struct Report {
    created: u64,
    replaced: u64,
    skipped: u64,
    failed: u64,
    errors: Vec<FailedRow>,
}

#[derive(Serialize)]
struct FailedRow {
    line: u64,
    #[serde(flatten)]
    error: Error,
}

impl Report {
    fn add(&mut self, line: u64, became: Result<Imported, Failure>) {
        match became {
            Ok(Imported::Created) => self.created += 1,
            Ok(Imported::Replaced) => self.replaced += 1,
            Ok(Imported::Skipped) => self.skipped += 1,
            Ok(Imported::IdTaken) => self.failed += 1,
            Err(failure) => {
                self.failed += 1;
                if self.errors.len() < REPORT_MAX_ERRORS {
                    self.errors.push(FailedRow { line, error: failure.error() });
                }
            }
        }
    }

    /// An import that ends early leaves what was taken until then.
    fn explain(&self, failure: Failure) -> Failure {
        let Self { created, replaced, skipped, failed, errors: _ } = self;
        if created + replaced + skipped + failed == 0 {
            return failure;
        }
        failure.and_say(&format!(
            "before that {created} plants were created, {replaced} replaced, {skipped} skipped and \
             {failed} failed; import all again with on_conflict=skip to go on",
        ))
    }
}
