//! The ceiling that `plantd` is measured against: the same server, routes, gate and JSON, with a repository that
//! stores nothing. It takes `--listen`, `--data` (which it ignores) and `PLANTD_TOKEN`, and prints the same line as
//! `plantd` when it is ready.
//!
//! Every read and list returns one plant, whose name and tag together have as many bytes as the average plant of the
//! bench, so that responses are as large as those of `plantd`.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use clap::Parser;
use plant_domain::{NewPlant, NewPlantRef, Plant, PlantId};
use plant_http::{PlantService, Scope, ServerConfig, Token, TokenName, TokenRecord, Tokens};
use plant_store::write::{Decision, KeptPlant, Write};
use plant_store::{
    Author, Batch, BatchError, EventCursor, EventPage, EventsAfter, HistoryPage, HistoryRequest,
    Imported, OnConflict, Page, PagePlace, PageRequest, PlantRepository, PlantSnapshot, Revision,
    StoreError, StoreFailure, StoredPlant, TagPage, TagPageRequest, Written,
};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
struct Options {
    #[arg(long)]
    listen: String,
    #[arg(long)]
    data: Option<String>,
    #[arg(long, env = "PLANTD_TOKEN", hide_env_values = true)]
    token: String,
}

/// Acknowledges every write and keeps only their number.
struct StoresNothing {
    sequence: AtomicU64,
    plant: Plant,
}

/// There are no events.
const NO_EVENT: EventCursor = EventCursor { revision: Revision::BEFORE_ALL, log: 1 };

#[async_trait]
impl PlantRepository for StoresNothing {
    async fn write(&self, write: Write, _by: Option<Author>) -> Result<Decision, StoreError> {
        let revision = Revision::from(self.sequence.fetch_add(1, Ordering::Relaxed) + 1);
        let current = match write {
            Write::Create(..) | Write::Put(..) => None,
            Write::Patch(id, ..) | Write::Delete(id, _) => {
                let stored = StoredPlant { id, plant: self.plant.clone(), revision };
                Some(KeptPlant { stored, idempotency: None })
            }
        };
        write.decide(current, revision)
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        _on_conflict: OnConflict,
        _by: Option<Author>,
    ) -> Result<Vec<Imported>, StoreError> {
        Ok(vec![Imported::Created; new_plants.len()])
    }

    async fn batch(&self, batch: Batch) -> Result<Vec<Written>, BatchError> {
        let mut written = Vec::with_capacity(batch.writes.len());
        for write in batch.writes {
            written.push(self.write(write, None).await?.into_written());
        }
        Ok(written)
    }

    async fn get_all(&self, _ids: BTreeSet<PlantId>) -> Result<Page, StoreError> {
        Ok(Page::default())
    }

    async fn history(&self, _request: HistoryRequest) -> Result<HistoryPage, StoreError> {
        Ok(HistoryPage::default())
    }

    async fn version(&self, id: PlantId, revision: Revision) -> Result<StoredPlant, StoreError> {
        Ok(StoredPlant { id, plant: self.plant.clone(), revision })
    }

    async fn snapshot(&self) -> Result<Box<dyn PlantSnapshot>, StoreError> {
        Err(StoreError::Busy)
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        Ok(Some(StoredPlant { id, plant: self.plant.clone(), revision: Revision::from(1) }))
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        let first = match request.place {
            PagePlace::After(id) => id.get().saturating_add(1),
            PagePlace::First | PagePlace::Before(_) => 0,
        };
        let mut page = Page::with_capacity(request.limit);
        let plant = self.plant.members();
        for id in (first..).take(request.limit).map(PlantId::from) {
            page.push(NewPlantRef { id, plant }, Revision::from(1));
        }
        Ok(page)
    }

    async fn count(&self, _tag: Option<&str>) -> Result<u64, StoreError> {
        Ok(self.sequence.load(Ordering::Relaxed))
    }

    async fn tags(&self, _request: TagPageRequest) -> Result<TagPage, StoreError> {
        Ok(TagPage::default())
    }

    async fn events(&self, _after: EventsAfter, _limit: usize) -> Result<EventPage, StoreError> {
        Ok(EventPage { events: Vec::new(), next: NO_EVENT })
    }

    async fn newest_event(&self) -> Result<EventCursor, StoreError> {
        Ok(NO_EVENT)
    }

    async fn next_events(
        &self,
        _after: EventCursor,
        _limit: usize,
    ) -> Result<EventPage, StoreError> {
        std::future::pending().await
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn failed(&self) -> StoreFailure {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        Ok(())
    }
}

fn main() -> anyhow::Result<()> {
    env_logger::init_from_env(env_logger::Env::default().default_filter_or("info"));
    let Options { listen, data: _, token } = Options::parse();
    let token = Token::chosen(token)?;
    let plant = Plant::new("Crassula glabra", Some("Crassulaceae".to_owned()))?;
    let repository = StoresNothing { sequence: AtomicU64::new(0), plant };
    let record = TokenRecord::new(TokenName::new("ceiling")?, Scope::Write, &token);
    let service = PlantService::new(Arc::new(repository), Tokens::new(vec![record]));
    let mut config = ServerConfig::default();
    config.max_connections = NonZeroU32::new(10_000).context("0 connections")?;
    config.drain_timeout = Duration::from_secs(1);
    let listener = TcpListener::bind(&listen).with_context(|| format!("cannot bind {listen}"))?;
    actix_web::rt::System::new().block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let address = listener.local_addr()?;
        writeln!(io::stdout(), "plantd listening on http://{address}")?;
        let stop = async move {
            terminate.recv().await;
        };
        Ok(plant_http::serve(listener, service, config, stop).await?)
    })
}
