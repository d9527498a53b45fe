//! Snapshots: transactions that stay open while their plants are read page by page.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use async_trait::async_trait;
use plant_store::{Page, PageRequest, PlantSnapshot, StoreError, StoreFailure};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::name_index::KnownNameIndexes;
use crate::reader::{PostgresReader, Retries};
use crate::search::{begin_moment, page_of_moment};
use crate::sessions::{PATIENCE, Session};

pub(super) struct PostgresSnapshot {
    /// `None` while a page is read. If the caller is canceled meanwhile, the snapshot is over.
    open: Option<OpenSnapshot>,
    name_indexes: KnownNameIndexes,
    handle: Handle,
}

/// The transaction of a snapshot, which ends when this is dropped.
struct OpenSnapshot {
    session: Session,
    // Dropped last.
    _permit: OwnedSemaphorePermit,
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        self.session.give_up();
    }
}

impl PostgresSnapshot {
    /// Waits a moment for one of the permits.
    pub(super) async fn begin(
        reader: PostgresReader,
        permits: Arc<Semaphore>,
        name_indexes: KnownNameIndexes,
    ) -> Result<Self, StoreError> {
        let permit =
            timeout(PATIENCE, permits.acquire_owned()).await.map_err(|_| StoreError::Busy)?;
        let permit = permit.context("snapshots are closed").map_err(StoreFailure::new)?;
        let mut retries = Retries::default();
        let session = loop {
            match Self::try_to_begin(&reader).await {
                Ok(session) => break session,
                Err(error) => {
                    let retried = retries.after(error).await;
                    retried.context("cannot read plants").map_err(StoreFailure::new)?;
                }
            }
        };
        let open = Some(OpenSnapshot { session, _permit: permit });
        Ok(Self { open, name_indexes, handle: Handle::current() })
    }

    async fn try_to_begin(reader: &PostgresReader) -> anyhow::Result<Session> {
        let session = reader.sessions.get().await?;
        begin_moment(&session).await?;
        Ok(session)
    }
}

#[async_trait]
impl PlantSnapshot for PostgresSnapshot {
    async fn list(&mut self, request: PageRequest) -> Result<Page, StoreError> {
        let over = || anyhow!("a failure or a canceled read has ended the snapshot");
        let open = self.open.take().ok_or_else(|| StoreFailure::new(over()))?;
        let name_indexes = self.name_indexes.clone();
        // On the threads to which the session belongs.
        let reading = self.handle.spawn(async move {
            let page = page_of_moment(&open.session, &name_indexes, &request).await;
            page.map(|page| (page, open))
        });
        let read = reading.await.context("a read panicked").flatten();
        let (page, open) = read.context("cannot read plants").map_err(StoreFailure::new)?;
        self.open = Some(open);
        Ok(page)
    }
}
