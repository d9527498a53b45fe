//! The backup: the store in one moment, in bounded memory.

use std::rc::Rc;
use std::time::Duration;

use actix_http::Method;
use actix_web::HttpResponse;
use actix_web::web::{Bytes, ReqData};
use anyhow::anyhow;
use futures_util::stream;
use plant_store::Backup;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::errors::Failure;
use crate::extract::chunked::Chunked;
use crate::extract::head::Head;
use crate::extract::query::NoQuery;
use crate::handlers::{Repository, without_content};
use crate::middleware::context::RequestContext;

/// The media type of a backup.
pub const BACKUP_MEDIA_TYPE: &str = "application/octet-stream";

/// The most bytes of a backup that are sent in a second, so that writes keep the processors and the disk.
const BYTES_PER_SECOND: u64 = 16 * 1024 * 1024;

/// `GET /backup`.
pub(crate) async fn backup(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    _: Head<Chunked>,
    _: Head<NoQuery>,
    method: Method,
) -> Result<HttpResponse, Failure> {
    if method == Method::HEAD {
        repository.check_backup().await?;
        return Ok(without_content(HttpResponse::Ok(), BACKUP_MEDIA_TYPE));
    }
    let backup = repository.backup().await?;
    let transfer = Transfer { backup, context: context.into_inner(), next_at: Instant::now() };
    let parts = stream::try_unfold(transfer, Transfer::part);
    Ok(HttpResponse::Ok().content_type(BACKUP_MEDIA_TYPE).streaming(parts))
}

/// A backup that is being sent.
struct Transfer {
    backup: Backup,
    context: Rc<RequestContext>,
    /// When the next part may be sent.
    next_at: Instant,
}

impl Transfer {
    /// The next part of the body, and the rest. An error cuts the body off, which the client notices.
    async fn part(self) -> anyhow::Result<Option<(Bytes, Self)>> {
        let Self { backup, context, next_at } = self;
        sleep_until(next_at).await;
        // The socket takes megabytes before it is full. Other requests of this thread get a turn before each part.
        yield_now().await;
        // A backup may take minutes, and its token may be revoked during that time.
        context.check_still_valid().map_err(|failure| anyhow!("{failure}"))?;
        let Some((bytes, backup)) = backup.next().await? else { return Ok(None) };
        let takes = Duration::from_secs_f64(bytes.len() as f64 / BYTES_PER_SECOND as f64);
        // A client that has stalled does not get the rest faster.
        let next_at = next_at.max(Instant::now()) + takes;
        Ok(Some((Bytes::from_owner(bytes), Self { backup, context, next_at })))
    }
}
