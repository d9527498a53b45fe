//! Webhooks: changes of plants, sent to other programs.
//!
//! Commands on the machine of the server edit the [`file`](mod@file), which a server follows. The server has a [`sender`] for each
//! webhook, which sends [`message`]s to its [`receiver`] and keeps its [`progress`] in a checkpoint. A [`destination`] says
//! where messages may go.

pub(crate) mod command;
pub(crate) mod destination;
pub(crate) mod file;
mod message;
mod metrics;
mod progress;
mod receiver;
mod sender;
mod status;

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, ensure};
use plant_http::WebhookStatus;
use plant_store::{Checkpoints, PlantRepository};
use prometheus::Registry;
use tokio::runtime;
use tokio::sync::watch;

use self::file::{Webhook, WebhooksFile};
use self::metrics::{WebhookCollector, WebhookMetrics};
use self::progress::Progress;
use self::receiver::Receiver;
use self::sender::Sender;
use self::status::{Statuses, status};
use crate::exit::Stop;
use crate::files::json_file::JsonFile as _;
use crate::serve::followed_file::follow;

/// The stores that senders read events from and keep checkpoints in.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) repository: Arc<dyn PlantRepository>,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
}

impl Stores {
    /// Both are in one store.
    pub(crate) fn of(store: impl PlantRepository + Checkpoints + 'static) -> Self {
        let store = Arc::new(store);
        Self { repository: Arc::clone(&store) as _, checkpoints: store }
    }
}

/// A webhook with a sender.
struct Running {
    /// Dropping it ends the sender.
    webhook: watch::Sender<Webhook>,
    progress: Arc<Mutex<Progress>>,
}

/// Sends the webhooks in the file, which is followed from now on, until the process ends. Nothing waits for deliveries in
/// flight then: the next start repeats them.
pub(crate) fn start(path: PathBuf, stores: Stores, registry: &Registry) -> Result<Statuses, Stop> {
    let content = WebhooksFile::load(&path).map_err(Stop::of_file)?;
    let parse = |content: &Option<Vec<u8>>| match content {
        Some(bytes) => WebhooksFile::parse(bytes).map(|file| file.webhooks),
        None => Ok(Vec::new()),
    };
    let webhooks = parse(&content).with_context(|| path.display().to_string());
    let (new_webhooks, webhooks) = watch::channel(webhooks.map_err(Stop::Configuration)?);
    let metrics = WebhookMetrics::new()?;
    let running = Arc::<Mutex<Vec<Running>>>::default();
    let statuses: Statuses = {
        let running = Arc::clone(&running);
        Arc::new(move || {
            let running = running.lock().unwrap_or_else(PoisonError::into_inner);
            running.iter().map(Running::status).collect()
        })
    };
    let statuses_of_metrics = Arc::clone(&statuses);
    let collector = WebhookCollector { metrics: metrics.clone(), statuses: statuses_of_metrics };
    registry.register(Box::new(collector)).context("cannot register the metrics of webhooks")?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start a runtime")?;
    let sending = manage(webhooks, running, stores, metrics);
    thread::Builder::new()
        .name("plantd-webhooks".to_owned())
        .spawn(move || runtime.block_on(sending))
        .context("cannot start a thread for webhooks")?;
    let read = {
        let path = path.clone();
        move || WebhooksFile::load(&path)
    };
    let take = move |content: &Option<Vec<u8>>| {
        ensure!(
            content.is_some(),
            "{} is gone; put it back, or use `plantd webhook remove`",
            path.display()
        );
        new_webhooks.send_replace(parse(content)?);
        Ok(())
    };
    follow("the webhooks file", content, read, take)?;
    Ok(statuses)
}

/// Starts and ends senders as the file changes.
async fn manage(
    mut webhooks: watch::Receiver<Vec<Webhook>>,
    running: Arc<Mutex<Vec<Running>>>,
    stores: Stores,
    metrics: WebhookMetrics,
) {
    loop {
        let wanted = webhooks.borrow_and_update().clone();
        let ids = wanted.iter().map(|webhook| webhook.id.clone()).collect();
        {
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            let mut before = mem::take(&mut *running);
            *running = wanted
                .into_iter()
                .map(|webhook| match before.iter().position(|it| it.webhook().id == webhook.id) {
                    Some(place) => before.swap_remove(place).with(webhook),
                    None => Running::start(webhook, &stores, &metrics),
                })
                .collect();
            before.iter().for_each(|ended| metrics.forget(&ended.webhook().name));
        }
        if let Err(error) = stores.checkpoints.retain(ids).await {
            log::warn!("cannot forget the checkpoints of removed webhooks: {error}");
        }
        if webhooks.changed().await.is_err() {
            return;
        }
    }
}

impl Running {
    fn start(webhook: Webhook, stores: &Stores, metrics: &WebhookMetrics) -> Self {
        let receiver = Arc::new(Receiver::new(webhook.destination.clone()));
        let (sender, webhook) = watch::channel(webhook);
        let progress = Arc::<Mutex<Progress>>::default();
        let Stores { repository, checkpoints } = stores.clone();
        let shown = Arc::clone(&progress);
        let attempts = metrics.of(&webhook.borrow().name);
        let sending = Sender { repository, checkpoints, webhook, receiver, shown, attempts };
        tokio::spawn(sending.run());
        Self { webhook: sender, progress }
    }

    fn webhook(&self) -> watch::Ref<'_, Webhook> {
        self.webhook.borrow()
    }

    fn with(self, webhook: Webhook) -> Self {
        self.webhook.send_if_modified(|current| {
            let is_new = *current != webhook;
            *current = webhook;
            is_new
        });
        self
    }

    fn status(&self) -> WebhookStatus {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        status(&self.webhook(), &progress)
    }
}
