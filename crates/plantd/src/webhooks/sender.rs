//! The sending of one webhook.
//!
//! The queue is the log of events, and the checkpoint is the place in it. A turn decides the next deliveries, saves the
//! decision in the checkpoint, and only then sends them, one after the other. So after a kill anywhere, the same deliveries are
//! sent again with the same ids.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use plant_http::events_with_unchanged_plants;
use plant_store::{Event, EventCursor, EventPage, EventsAfter, Revision, StoreError};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, sleep_until, timeout};
use ureq::http::StatusCode;

use crate::webhooks::delivery::{self, Delivery, EncodedEvent};
use crate::webhooks::file::Webhook;
use crate::webhooks::metrics::Attempts;
use crate::webhooks::progress::{Deliveries, Pending, Progress};
use crate::webhooks::receiver_client::{Answer, ReceiverClient};
use crate::webhooks::store::Store;

/// How often a sender that has nothing to send looks whether it holds the checkpoint.
const HOLD_INTERVAL: Duration = Duration::from_secs(5);

/// How long deliveries go on before the sender looks whether it still holds the checkpoint.
const RECHECK_AFTER: Duration = Duration::from_secs(3);

/// The most events that are decided at once.
const EVENTS_AT_ONCE: usize = 2_000;

/// The least time from one decision to the next: under load, bodies are then full and checkpoints few.
const TURN_INTERVAL: Duration = Duration::from_millis(100);

/// Sends one webhook.
pub(super) struct Sender {
    pub(super) store: Store,
    pub(super) webhook: watch::Receiver<Webhook>,
    pub(super) receiver: Arc<ReceiverClient>,
    /// The progress that is shown.
    pub(super) shown: Arc<Mutex<Progress>>,
    pub(super) attempts: Attempts,
}

/// A webhook during one turn, in which this server holds its checkpoint.
struct Turn<'a> {
    sender: &'a Sender,
    webhook: Webhook,
    progress: Progress,
    /// When the checkpoint was last known to be held.
    held: Instant,
}

impl Sender {
    /// Sends until the webhook is removed.
    pub(super) async fn run(mut self) {
        let mut trouble = None;
        while !self.is_removed() {
            let next_turn = tokio::time::Instant::now() + TURN_INTERVAL;
            match self.turn().await {
                Ok(()) => trouble = None,
                Err(_) if self.is_removed() => {}
                Err(error) => {
                    let error = match error.downcast_ref::<StoreError>() {
                        // Its text has the causes.
                        Some(error) => error.to_string(),
                        None => format!("{error:#}"),
                    };
                    let webhook = self.webhook.borrow().clone();
                    // Shown until the store answers again.
                    self.shown().note_failed(error.clone(), None, false, webhook.times_resumed);
                    if trouble.as_ref() != Some(&error) {
                        log::warn!("webhook {}: {error}; retrying", webhook.name);
                        trouble = Some(error);
                    }
                    sleep(HOLD_INTERVAL).await;
                }
            }
            sleep_until(next_turn).await;
        }
    }

    fn is_removed(&self) -> bool {
        self.webhook.has_changed().is_err()
    }

    async fn turn(&mut self) -> anyhow::Result<()> {
        let webhook = self.webhook.borrow_and_update().clone();
        let held = Instant::now();
        let checkpoint = self.store.checkpoints.hold(&webhook.id).await?;
        let progress = Progress::decode(&checkpoint.content)?;
        self.show(&progress);
        let is_stopped = webhook.is_paused || progress.is_gone(webhook.times_resumed);
        let wait = if is_stopped || !checkpoint.is_held {
            Some(HOLD_INTERVAL)
        } else {
            progress.pause(webhook.times_resumed)
        };
        if let Some(wait) = wait {
            let _ = timeout(wait.min(HOLD_INTERVAL), self.webhook.changed()).await;
            return Ok(());
        }
        if *self.receiver.destination() != webhook.destination {
            self.receiver = Arc::new(ReceiverClient::new(webhook.destination.clone()));
        }
        let mut turn = Turn { sender: self, webhook, progress, held };
        match turn.deliveries().await {
            // The next turn sends the report.
            Err(error) if are_events_gone(&error) => turn.decide_loss().await,
            deliveries => turn.send(deliveries?).await,
        }
    }

    fn show(&self, progress: &Progress) {
        progress.clone_into(&mut self.shown());
    }

    fn shown(&self) -> MutexGuard<'_, Progress> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// The next deliveries, which the saved checkpoint decides.
    async fn deliveries(&mut self) -> anyhow::Result<Vec<Delivery>> {
        let decided = match self.progress.pending {
            Some(_) => None,
            None => self.decide().await?,
        };
        let after = self.progress.cursor;
        match &self.progress.pending {
            None => Ok(Vec::new()),
            Some(Pending { oldest_at, what: Deliveries::Lost(to) }) => {
                Ok(vec![delivery::lost(&self.webhook, after, *to, *oldest_at)?])
            }
            Some(Pending { oldest_at, what: Deliveries::Events(ends) }) => {
                let events = match decided {
                    Some(events) => events,
                    None => {
                        let (after, last) = after.zip(ends.last()).context("no events to send")?;
                        self.encoded(self.events_up_to(after, last.revision).await?).await?
                    }
                };
                delivery::changed(&self.webhook, events, ends, *oldest_at)
            }
        }
    }

    /// Waits for events, decides what is sent next, and saves the decision. Returns the events to send, if there are any.
    async fn decide(&mut self) -> anyhow::Result<Option<Vec<EncodedEvent>>> {
        let Some(cursor) = self.progress.cursor else {
            let newest = self.sender.store.repository.newest_event().await?;
            if newest.revision != Revision::BEFORE_ALL {
                // The receiver lacks what was there before the webhook.
                self.decide_loss().await?;
            } else {
                self.progress.cursor = Some(newest);
                self.save().await?;
            }
            return Ok(None);
        };
        let Some(page) = self.events_after(cursor).await? else { return Ok(None) };
        let events = self.encoded(page.events).await?;
        match events.first() {
            Some(first) => {
                let (oldest_at, ends) = (first.at, delivery::ends(&events));
                self.progress.pending = Some(Pending { oldest_at, what: Deliveries::Events(ends) });
            }
            None => self.progress.cursor = Some(page.next),
        }
        self.save().await?;
        Ok(Some(events))
    }

    /// Decides to report that the events up to the newest one are lost.
    async fn decide_loss(&mut self) -> anyhow::Result<()> {
        let newest = self.sender.store.repository.newest_event().await?;
        let (oldest_at, what) = (Timestamp::now(), Deliveries::Lost(newest));
        self.progress.pending = Some(Pending { oldest_at, what });
        self.save().await
    }

    /// Waits for events after a cursor, for a while, or until the webhook is changed.
    async fn events_after(&self, cursor: EventCursor) -> anyhow::Result<Option<EventPage>> {
        let mut webhook = self.sender.webhook.clone();
        tokio::select! {
            page = self.sender.store.repository.next_events(cursor, EVENTS_AT_ONCE) => Ok(Some(page?)),
            _ = webhook.changed() => Ok(None),
            () = sleep(HOLD_INTERVAL) => Ok(None),
        }
    }

    /// The events after a cursor, up to a revision.
    async fn events_up_to(
        &self,
        mut after: EventCursor,
        last: Revision,
    ) -> anyhow::Result<Vec<Event>> {
        let mut events = Vec::new();
        while after.revision < last {
            let start = EventsAfter::Cursor(after);
            let page = self.sender.store.repository.events(start, EVENTS_AT_ONCE).await?;
            if page.events.is_empty() {
                // The database was set back to an earlier state.
                bail!(StoreError::EventsGone);
            }
            after = page.next;
            events.extend(page.events);
        }
        Ok(events)
    }

    /// The events of the wanted kinds, as they are sent.
    async fn encoded(&self, mut events: Vec<Event>) -> anyhow::Result<Vec<EncodedEvent>> {
        let Webhook { kinds, plants, .. } = &self.webhook;
        events.retain(|event| kinds.contains(&event.kind));
        let repository = &*self.sender.store.repository;
        let shown = events_with_unchanged_plants(repository, events, *plants).await?;
        shown.iter().map(EncodedEvent::new).collect()
    }

    /// Sends deliveries until one fails, or the webhook is changed.
    async fn send(&mut self, deliveries: Vec<Delivery>) -> anyhow::Result<()> {
        if deliveries.is_empty() {
            return Ok(());
        }
        for delivery in deliveries {
            // A change may be a pause, a new secret, or the end of the webhook.
            if self.sender.webhook.has_changed().unwrap_or(true) {
                break;
            }
            if self.held.elapsed() > RECHECK_AFTER {
                self.recheck().await?;
            }
            if let Some(pending) = &mut self.progress.pending {
                pending.oldest_at = delivery.oldest_at;
            }
            self.sender.show(&self.progress);
            let (id, end) = (delivery.id.clone(), delivery.end);
            let outcome = self.attempt(delivery).await?;
            if !self.note(&id, end, outcome) {
                break;
            }
        }
        self.save().await
    }

    /// Looks whether this server still holds the checkpoint.
    async fn recheck(&mut self) -> anyhow::Result<()> {
        // A holder that does not show itself for half a minute loses what it holds in PostgreSQL.
        self.sender.store.checkpoints.hold(&self.webhook.id).await?;
        self.save().await
    }

    async fn attempt(&self, delivery: Delivery) -> anyhow::Result<anyhow::Result<Answer>> {
        let (receiver, webhook) = (Arc::clone(&self.sender.receiver), self.webhook.clone());
        let attempt =
            spawn_blocking(move || receiver.attempt(&webhook, &delivery.id, &delivery.body));
        attempt.await.context("an attempt panicked")
    }

    /// Notes the outcome of an attempt. Returns whether the delivery succeeded.
    fn note(&mut self, id: &str, end: EventCursor, outcome: anyhow::Result<Answer>) -> bool {
        let Webhook { name, times_resumed, .. } = &self.webhook;
        let (progress, attempts) = (&mut self.progress, &self.sender.attempts);
        let (message, retry_after, is_gone) = match outcome {
            Ok(Answer { status, .. }) if status.is_success() => {
                attempts.delivered.inc();
                if progress.failing.is_some() {
                    log::info!("webhook {name}: delivery {id} succeeded after failures");
                }
                progress.note_delivered(end);
                return true;
            }
            Ok(Answer { status, retry_after, .. }) => {
                let is_gone = status == StatusCode::GONE;
                let attempts = if is_gone { &attempts.gone } else { &attempts.refused };
                attempts.inc();
                (format!("the receiver answered {status}"), retry_after, is_gone)
            }
            Err(error) => {
                attempts.no_answer.inc();
                (format!("{error:#}"), None, false)
            }
        };
        let pause = progress.note_failed(message.clone(), retry_after, is_gone, *times_resumed);
        let next = if is_gone {
            format!("paused until plantd webhook resume {name}")
        } else {
            let pause = Duration::from_secs(pause.as_secs());
            format!("retrying in {}", humantime::format_duration(pause))
        };
        log::warn!("webhook {name}: delivery {id} failed: {message}; {next}");
        false
    }

    /// Saves the progress. Fails if another server holds the checkpoint.
    async fn save(&mut self) -> anyhow::Result<()> {
        let held = Instant::now();
        let content = self.progress.encode()?;
        let is_held = self.sender.store.checkpoints.save(&self.webhook.id, content).await?;
        ensure!(is_held, "another server has taken over");
        self.held = held;
        self.sender.show(&self.progress);
        Ok(())
    }
}

/// Whether the log does not reach back to a cursor, or is another log.
fn are_events_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::EventsGone))
}
