//! The sending of one webhook.
//!
//! The queue is the log of events, and the checkpoint is the place in it. A turn decides the next deliveries, saves them in
//! the checkpoint, and only then sends them, one after the other. So after a kill anywhere, the same deliveries are sent
//! again with the same ids.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use plant_http::current_events;
use plant_store::{
    Checkpoints, Event, EventCursor, EventsAfter, PlantRepository, Revision, StoreError,
};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, sleep_until, timeout};

use crate::webhooks::file::Webhook;
use crate::webhooks::message::{self, EncodedEvent, Message};
use crate::webhooks::metrics::Attempts;
use crate::webhooks::progress::{Deliveries, Progress, Sending};
use crate::webhooks::receiver::{Answer, Receiver};

/// How often a sender that has nothing to send looks whether it holds the checkpoint.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The most events that are decided at once.
const EVENTS_AT_ONCE: usize = 2_000;

/// The least time from one decision to the next: under load, bodies are then full and checkpoints few.
const TURN_INTERVAL: Duration = Duration::from_millis(100);

/// How long deliveries go on before the sender looks whether it still holds the checkpoint.
const LOOK_AFTER: Duration = Duration::from_secs(3);

/// Sends one webhook.
pub(super) struct Sender {
    pub(super) repository: Arc<dyn PlantRepository>,
    pub(super) checkpoints: Arc<dyn Checkpoints>,
    pub(super) webhook: watch::Receiver<Webhook>,
    pub(super) receiver: Arc<Receiver>,
    /// The progress that is shown.
    pub(super) shown: Arc<Mutex<Progress>>,
    pub(super) attempts: Attempts,
}

/// A webhook during one turn, which holds its checkpoint.
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
        while self.webhook.has_changed().is_ok() {
            let next_turn = tokio::time::Instant::now() + TURN_INTERVAL;
            match self.turn().await {
                Ok(()) => trouble = None,
                Err(error) => {
                    let error = format!("{error:#}");
                    if trouble.as_ref() != Some(&error) {
                        let name = &self.webhook.borrow().name;
                        log::warn!("webhook {name}: {error}; retrying");
                        trouble = Some(error);
                    }
                    sleep(LOOK_INTERVAL).await;
                }
            }
            sleep_until(next_turn).await;
        }
    }

    async fn turn(&mut self) -> anyhow::Result<()> {
        let webhook = self.webhook.borrow_and_update().clone();
        let held = Instant::now();
        let checkpoint = self.checkpoints.hold(&webhook.id).await?;
        let progress = Progress::decode(&checkpoint.content)?;
        self.show(&progress);
        let is_stopped = webhook.is_paused || progress.gone == Some(webhook.times_resumed);
        let pause = match progress.pause() {
            _ if is_stopped || !checkpoint.is_held => Some(LOOK_INTERVAL),
            pause => pause,
        };
        if let Some(pause) = pause {
            let _ = timeout(pause.min(LOOK_INTERVAL), self.webhook.changed()).await;
            return Ok(());
        }
        if *self.receiver.destination() != webhook.destination {
            self.receiver = Arc::new(Receiver::new(webhook.destination.clone()));
        }
        let mut turn = Turn { sender: self, webhook, progress, held };
        let messages = match turn.messages().await {
            Err(error) if is_gone(&error) => turn.report_loss().await,
            messages => messages,
        }?;
        turn.send(messages).await
    }

    fn show(&self, progress: &Progress) {
        progress.clone_into(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Turn<'_> {
    /// The next deliveries, which are saved.
    async fn messages(&mut self) -> anyhow::Result<Vec<Message>> {
        let Some(cursor) = self.progress.cursor else { return self.begin().await };
        let Some(Sending { since, what }) = &self.progress.sending else {
            return self.decide(cursor).await;
        };
        match what {
            Deliveries::Lost(to) => {
                Ok(vec![message::lost(&self.webhook, Some(cursor), *to, *since)?])
            }
            Deliveries::Events(ends) => {
                let last = ends.last().context("no deliveries are decided")?;
                let events = self.encoded(self.events_up_to(cursor, last.revision).await?).await?;
                message::changed(&self.webhook, events, ends)
            }
        }
    }

    /// Begins a new webhook after the newest event. If there are plants already, the receiver is told that it lacks them.
    async fn begin(&mut self) -> anyhow::Result<Vec<Message>> {
        if let Some(Sending { since, what: Deliveries::Lost(to) }) = &self.progress.sending {
            return Ok(vec![message::lost(&self.webhook, None, *to, *since)?]);
        }
        let newest = self.sender.repository.newest_event().await?;
        if newest.revision != Revision::BEFORE_ALL {
            return self.report_loss().await;
        }
        self.progress.cursor = Some(newest);
        self.save().await?;
        Ok(Vec::new())
    }

    /// Waits for events, and decides their deliveries.
    async fn decide(&mut self, cursor: EventCursor) -> anyhow::Result<Vec<Message>> {
        let mut changes = self.sender.webhook.clone();
        let page = tokio::select! {
            page = self.sender.repository.next_events(cursor, EVENTS_AT_ONCE) => page?,
            _ = changes.changed() => return Ok(Vec::new()),
            () = sleep(LOOK_INTERVAL) => return Ok(Vec::new()),
        };
        let events = self.encoded(page.events).await?;
        let ends = message::ends(&events);
        let messages = message::changed(&self.webhook, events, &ends)?;
        match messages.first() {
            Some(first) => {
                let since = first.since;
                self.progress.sending = Some(Sending { since, what: Deliveries::Events(ends) });
            }
            None => self.progress.cursor = Some(page.next),
        }
        Ok(if self.save().await? { messages } else { Vec::new() })
    }

    /// Decides to report that all events up to the newest one are lost.
    async fn report_loss(&mut self) -> anyhow::Result<Vec<Message>> {
        let (to, since) = (self.sender.repository.newest_event().await?, Timestamp::now());
        let after = self.progress.cursor;
        self.progress.sending = Some(Sending { since, what: Deliveries::Lost(to) });
        let message = message::lost(&self.webhook, after, to, since)?;
        Ok(if self.save().await? { vec![message] } else { Vec::new() })
    }

    /// The events after a cursor, up to a revision.
    async fn events_up_to(
        &self,
        mut after: EventCursor,
        last: Revision,
    ) -> anyhow::Result<Vec<Event>> {
        let mut events = Vec::new();
        while after.revision < last {
            let page = EventsAfter::Cursor(after);
            let page = self.sender.repository.events(page, EVENTS_AT_ONCE).await?;
            if page.events.is_empty() {
                // The database was set back to an earlier state.
                return Err(StoreError::EventsGone.into());
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
        let shown = current_events(&*self.sender.repository, events, *plants).await?;
        shown.iter().map(EncodedEvent::new).collect()
    }

    /// Sends deliveries until one fails, the webhook is changed, or another server holds the checkpoint.
    async fn send(&mut self, messages: Vec<Message>) -> anyhow::Result<()> {
        if messages.is_empty() {
            return Ok(());
        }
        for message in messages {
            // A change may be a pause, a new secret, or the end of the webhook.
            if self.sender.webhook.has_changed().unwrap_or(true) {
                break;
            }
            if self.held.elapsed() > LOOK_AFTER && !self.save().await? {
                return Ok(());
            }
            if let Some(Sending { since, .. }) = &mut self.progress.sending {
                *since = message.since;
            }
            self.sender.show(&self.progress);
            let (id, end) = (message.id.clone(), message.end);
            let outcome = self.attempt(message).await?;
            if !self.note(&id, end, outcome) {
                break;
            }
        }
        self.save().await.map(drop)
    }

    async fn attempt(&self, message: Message) -> anyhow::Result<anyhow::Result<Answer>> {
        let (receiver, webhook) = (Arc::clone(&self.sender.receiver), self.webhook.clone());
        let attempt =
            spawn_blocking(move || receiver.attempt(&webhook, &message.id, &message.body));
        attempt.await.context("an attempt panicked")
    }

    /// Notes the outcome of an attempt. Returns whether the delivery succeeded.
    fn note(&mut self, id: &str, end: EventCursor, outcome: anyhow::Result<Answer>) -> bool {
        let (name, progress) = (&self.webhook.name, &mut self.progress);
        let attempts = &self.sender.attempts;
        let (message, retry_after) = match outcome {
            Ok(Answer { status, .. }) if status.is_success() => {
                attempts.delivered.inc();
                if progress.failures > 0 {
                    log::info!("webhook {name}: delivery {id} succeeded after failures");
                }
                progress.note_delivered(end);
                return true;
            }
            Ok(Answer { status, retry_after, .. }) => {
                let is_gone = status.as_u16() == 410;
                let attempts = if is_gone { &attempts.gone } else { &attempts.refused };
                attempts.inc();
                progress.gone = is_gone.then_some(self.webhook.times_resumed);
                (format!("the receiver answered {status}"), retry_after)
            }
            Err(error) => {
                attempts.no_answer.inc();
                (format!("{error:#}"), None)
            }
        };
        let pause = progress.note_failed(message.clone(), retry_after);
        if progress.gone.is_some() {
            log::warn!(
                "webhook {name}: delivery {id} failed: {message}; paused until `plantd webhook resume`"
            );
        } else {
            let pause = humantime::format_duration(Duration::from_secs(pause.as_secs()));
            log::warn!("webhook {name}: delivery {id} failed: {message}; retrying in {pause}");
        }
        false
    }

    /// Saves the progress. Returns whether this server still holds the checkpoint.
    async fn save(&mut self) -> anyhow::Result<bool> {
        self.sender.show(&self.progress);
        let held = Instant::now();
        let content = self.progress.encode()?;
        let is_held = self.sender.checkpoints.save(&self.webhook.id, content).await?;
        self.held = held;
        Ok(is_held)
    }
}

fn is_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::EventsGone))
}
