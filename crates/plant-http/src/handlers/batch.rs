//! Batches: many writes that all happen, or none.

use std::rc::Rc;

use actix_web::HttpResponse;
use actix_web::web::ReqData;
use plant_store::write::Write;
use plant_store::{Batch, BatchError, Put, StoreError, Written};
use serde::Serialize;

use crate::errors::Failure;
use crate::extract::batch::BatchRequest;
use crate::extract::media_type::JSON;
use crate::handlers::Repository;
use crate::handlers::write_answer::WriteAnswer;
use crate::middleware::audit::AuditedWrites;
use crate::middleware::context::RequestContext;

/// `POST /batch`.
pub(crate) async fn batch(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    BatchRequest { writes, idempotency, room, answer_room }: BatchRequest,
) -> Result<HttpResponse, Failure> {
    let audited = AuditedWrites::of_batch(&context, writes.iter().map(Write::id));
    let batch = Batch { writes, by: context.author(), idempotency };
    let written = match repository.batch(batch).await {
        Ok(written) => written,
        Err(error) => {
            // Only a store that has failed may have written the batch.
            if !matches!(error, BatchError::Store(StoreError::Failed(_))) {
                audited.end([].into_iter());
            }
            return Err(match error {
                BatchError::Refused(index, error) => Failure::from(error).of_request(index),
                BatchError::Store(error) => error.into(),
            });
        }
    };
    audited.end(written.iter().map(|written| Some(outcome(written))));

    let responses = written.into_iter().map(|it| WriteAnswer::of(it, &context)).collect();
    drop(room);
    let body = answer_room.hold_json(&BatchAnswer { responses })?;
    Ok(HttpResponse::Ok().content_type(JSON).body(body))
}

/// The word of the audit log for a write.
const fn outcome(written: &Written) -> &'static str {
    match written {
        Written::Created(_) | Written::Put(Put { is_new: true, .. }) => "created",
        Written::Put(_) => "replaced",
        Written::Patched(_) => "updated",
        Written::Deleted => "deleted",
    }
}

#[derive(Serialize)]
struct BatchAnswer {
    responses: Vec<WriteAnswer>,
}
