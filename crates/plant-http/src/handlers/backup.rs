//! The backup: the store in one moment, in bounded memory.

use std::rc::Rc;

use actix_web::HttpResponse;
use actix_web::body::SizedStream;
use actix_web::web::{Bytes, ReqData};
use anyhow::anyhow;
use futures_util::stream;
use plant_store::Backup;
use tokio::task::yield_now;

use crate::errors::Failure;
use crate::extract::head::Head;
use crate::extract::query::NoQuery;
use crate::handlers::Repository;
use crate::middleware::context::RequestContext;

/// The media type of a backup.
pub const BACKUP_MEDIA_TYPE: &str = "application/octet-stream";

/// `GET /backup`.
pub(crate) async fn backup(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    Head(NoQuery): Head<NoQuery>,
) -> Result<HttpResponse, Failure> {
    let backup = repository.backup().await?;
    let length = backup.length();
    let parts = stream::try_unfold((backup, context.into_inner()), part);
    let body = SizedStream::new(length, parts);
    Ok(HttpResponse::Ok().content_type(BACKUP_MEDIA_TYPE).body(body))
}

/// The next part of the body, and what is needed for the rest. An error cuts the body off, which the client notices.
async fn part(
    (backup, context): (Backup, Rc<RequestContext>),
) -> anyhow::Result<Option<(Bytes, (Backup, Rc<RequestContext>))>> {
    // The socket takes megabytes before it is full. Other requests of this thread get a turn before each part.
    yield_now().await;
    // A backup may take minutes, and its token may be revoked during that time.
    context.check_still_valid().map_err(|failure| anyhow!("{failure}"))?;
    let next = backup.next().await?;
    Ok(next.map(|(bytes, rest)| (Bytes::from(bytes), (rest, context))))
}
