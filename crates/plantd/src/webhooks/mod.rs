//! Webhooks: changes of plants, sent to other programs.
//!
//! Commands on the machine of the server edit the [`file`](mod@file), which a server follows. The server has a [`sender`] for each
//! webhook. The sender reads the [`store`], has a [`receiver_client`] send each [`delivery`], and keeps its [`progress`] in a
//! checkpoint. A [`destination`] says where deliveries may go.

pub(crate) mod command;
mod delivery;
pub(crate) mod destination;
pub(crate) mod file;
mod metrics;
mod progress;
mod receiver_client;
mod sender;
mod status;
pub(crate) mod store;

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, ensure};
use plant_http::{WebhookStatus, WebhookStatuses};
use prometheus::Registry;
use tokio::runtime;
use tokio::sync::{oneshot, watch};

use self::file::{Webhook, WebhooksFile};
use self::metrics::{WebhookCollector, WebhookMetrics};
use self::progress::Progress;
use self::receiver_client::ReceiverClient;
use self::sender::Sender;
use self::status::status;
use self::store::Store;
use crate::exit::Stop;
use crate::files::followed_file::follow;
use crate::files::json_file::JsonFile as _;

/// The thread that sends the webhooks of a server.
pub(crate) struct Webhooks {
    pub(crate) statuses: WebhookStatuses,
    thread: JoinHandle<()>,
    /// Dropping it ends the thread.
    end: oneshot::Sender<()>,
}

/// The webhooks that have senders.
type Running = Arc<Mutex<Vec<RunningWebhook>>>;

struct RunningWebhook {
    /// Dropping it ends the sender.
    webhook: watch::Sender<Webhook>,
    progress: Arc<Mutex<Progress>>,
}

impl Webhooks {
    /// Sends the webhooks in the file, which is followed from now on.
    pub(crate) fn start(path: PathBuf, store: Store, registry: &Registry) -> Result<Self, Stop> {
        let content = WebhooksFile::read_bytes(&path).map_err(Stop::of_file)?;
        let webhooks = content.as_deref().map(parse).transpose();
        let webhooks = webhooks.with_context(|| path.display().to_string());
        let (new_webhooks, webhooks) = watch::channel(webhooks.map_err(Stop::Configuration)?);
        let metrics = WebhookMetrics::new()?;
        let running = Running::default();
        let statuses = {
            let running = Arc::clone(&running);
            move || {
                let running = running.lock().unwrap_or_else(PoisonError::into_inner);
                running.iter().map(RunningWebhook::status).collect()
            }
        };
        let statuses: WebhookStatuses = Arc::new(statuses);
        let collector =
            WebhookCollector { metrics: metrics.clone(), statuses: Arc::clone(&statuses) };
        registry.register(Box::new(collector))?;

        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let send = move || {
            let send = manage(webhooks, running, store, metrics);
            runtime.block_on(async {
                tokio::select! {
                    () = send => {}
                    _ = ended => {}
                }
            });
            // The next start repeats the deliveries in flight, so nothing waits for their answers.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("plantd-webhooks".to_owned()).spawn(send)?;

        let read = {
            let path = path.clone();
            move || WebhooksFile::read_bytes(&path)
        };
        let take = move |content: &Option<Vec<u8>>| {
            ensure!(
                content.is_some(),
                "{} is gone; put it back, or use `plantd webhook remove`",
                path.display()
            );
            new_webhooks.send_replace(content.as_deref().map(parse).transpose()?);
            Ok(())
        };
        follow("the webhooks file", content, read, take)?;
        Ok(Self { statuses, thread, end })
    }

    /// Ends the thread, which then has released the store.
    pub(crate) fn end(self) {
        drop(self.end);
        // The panic hook has logged a panic.
        let _ = self.thread.join();
    }
}

fn parse(bytes: &[u8]) -> anyhow::Result<Vec<Webhook>> {
    Ok(WebhooksFile::parse(bytes)?.webhooks)
}

/// Starts and ends senders as the file changes.
async fn manage(
    mut webhooks: watch::Receiver<Option<Vec<Webhook>>>,
    running: Running,
    store: Store,
    metrics: WebhookMetrics,
) {
    loop {
        let wanted = webhooks.borrow_and_update().clone();
        // A file that is missing may come back, so nothing is forgotten.
        if let Some(wanted) = wanted {
            let ids = wanted.iter().map(|webhook| webhook.id.clone()).collect();
            replace(&running, wanted, &store, &metrics);
            if let Err(error) = store.checkpoints.retain(ids).await {
                log::warn!("cannot forget the checkpoints of removed webhooks: {error}");
            }
        }
        if webhooks.changed().await.is_err() {
            return;
        }
    }
}

/// Ends the senders of removed webhooks, and starts those of new ones.
fn replace(running: &Running, wanted: Vec<Webhook>, store: &Store, metrics: &WebhookMetrics) {
    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
    let is_wanted = |it: &RunningWebhook| wanted.iter().any(|webhook| it.is_of(webhook));
    let (mut kept, removed): (Vec<_>, Vec<_>) =
        mem::take(&mut *running).into_iter().partition(is_wanted);
    // A new webhook may have the name of a removed one.
    removed.iter().for_each(|it| metrics.forget(&it.webhook.borrow().name));
    *running = wanted
        .into_iter()
        .map(|webhook| match kept.iter().position(|it| it.is_of(&webhook)) {
            Some(place) => kept.swap_remove(place).with(webhook),
            None => RunningWebhook::start(webhook, store.clone(), metrics),
        })
        .collect();
}

impl RunningWebhook {
    fn start(webhook: Webhook, store: Store, metrics: &WebhookMetrics) -> Self {
        let receiver = Arc::new(ReceiverClient::new(webhook.destination.clone()));
        let attempts = metrics.of(&webhook.name);
        let (sender, webhook) = watch::channel(webhook);
        let progress = Arc::<Mutex<Progress>>::default();
        let shown = Arc::clone(&progress);
        tokio::spawn(Sender { store, webhook, receiver, shown, attempts }.run());
        Self { webhook: sender, progress }
    }

    fn is_of(&self, webhook: &Webhook) -> bool {
        self.webhook.borrow().id == webhook.id
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
        status(&self.webhook.borrow(), &progress)
    }
}
