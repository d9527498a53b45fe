//! Deliveries as Standard Webhooks 1.0 (standardwebhooks.com) describes them: their ids, bodies and headers.

use jiff::Timestamp;
use plant_http::ShownEvent;
use plant_store::EventCursor;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use ureq::http::request::Builder;

use crate::webhooks::file::Webhook;

/// The largest body, in bytes: what Standard Webhooks recommends.
const BODY_MAX_BYTES: usize = 20_000;

/// An upper bound for the bytes of a body outside its events.
const AROUND_EVENTS_BYTES: usize = 128;

/// One delivery.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// The id, which is the same in every attempt.
    pub(super) id: String,
    pub(super) body: String,
    /// The cursor after this delivery.
    pub(super) end: EventCursor,
    /// When the first of the events happened.
    pub(super) oldest_at: Timestamp,
}

#[derive(Serialize)]
struct Body<Data> {
    r#type: &'static str,
    timestamp: String,
    data: Data,
}

#[derive(Serialize)]
struct Changed {
    events: Vec<Box<RawValue>>,
}

/// The events after one cursor and up to another are lost. Before the first delivery there is no cursor.
#[derive(Serialize)]
struct Lost {
    after: Option<EventCursor>,
    to: EventCursor,
}

#[derive(Serialize)]
struct Test<'a> {
    webhook: &'a str,
}

/// An event as it is sent.
pub(super) struct EncodedEvent {
    cursor: EventCursor,
    pub(super) at: Timestamp,
    json: Box<RawValue>,
}

impl EncodedEvent {
    pub(super) fn new(event: &ShownEvent) -> anyhow::Result<Self> {
        let at = Timestamp::try_from(event.at)?;
        Ok(Self { cursor: event.cursor, at, json: to_raw_value(event)? })
    }

    /// The bytes of the event and of a comma.
    fn bytes(&self) -> usize {
        self.json.get().len() + 1
    }
}

/// Where deliveries of these events end, each as long as [`BODY_MAX_BYTES`] permits.
pub(super) fn ends(events: &[EncodedEvent]) -> Vec<EventCursor> {
    let mut ends: Vec<EventCursor> = Vec::new();
    let mut bytes = 0;
    for event in events {
        bytes += event.bytes();
        match ends.last_mut() {
            Some(end) if bytes <= BODY_MAX_BYTES => *end = event.cursor,
            _ => {
                bytes = AROUND_EVENTS_BYTES + event.bytes();
                ends.push(event.cursor);
            }
        }
    }
    ends
}

/// The deliveries that end at these cursors. Events after the last of them are left out. If the wanted kinds were edited since
/// the cursors were saved, a delivery may have no events; `time` is then its time.
pub(super) fn changed(
    webhook: &Webhook,
    events: Vec<EncodedEvent>,
    ends: &[EventCursor],
    time: Timestamp,
) -> anyhow::Result<Vec<Delivery>> {
    let mut events = events.into_iter().peekable();
    let mut deliveries = Vec::with_capacity(ends.len());
    for end in ends {
        let up_to_end = |event: &EncodedEvent| event.cursor.revision <= end.revision;
        let mut part = Vec::new();
        while let Some(event) = events.next_if(up_to_end) {
            part.push(event);
        }
        let [oldest_at, at] = [part.first(), part.last()].map(|it| it.map_or(time, |it| it.at));
        let data = Changed { events: part.into_iter().map(|event| event.json).collect() };
        let id = format!("{}-{end}", webhook.id);
        let body = body("plants.changed", at, data)?;
        deliveries.push(Delivery { id, body, end: *end, oldest_at });
    }
    Ok(deliveries)
}

/// The report that the events up to a cursor are lost, which was noticed at a time.
pub(super) fn lost(
    webhook: &Webhook,
    after: Option<EventCursor>,
    to: EventCursor,
    noticed_at: Timestamp,
) -> anyhow::Result<Delivery> {
    let id = format!("{}-lost-{to}", webhook.id);
    let body = body("plants.lost", noticed_at, Lost { after, to })?;
    Ok(Delivery { id, body, end: to, oldest_at: noticed_at })
}

/// The id and the body of a delivery that only shows whether the receiver takes deliveries.
pub(super) fn test(webhook: &Webhook) -> anyhow::Result<(String, String)> {
    let now = Timestamp::now();
    let id = format!("{}-test-{}", webhook.id, now.as_nanosecond());
    Ok((id, body("plants.test", now, Test { webhook: &webhook.name })?))
}

fn body(r#type: &'static str, at: Timestamp, data: impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&Body { r#type, timestamp: format!("{at:.3}"), data })?)
}

/// Adds the headers with the id, the time of the attempt, and a signature for each secret that is valid now.
pub(super) fn sign(
    request: Builder,
    webhook: &Webhook,
    id: &str,
    body: &str,
) -> anyhow::Result<Builder> {
    let timestamp = Timestamp::now().as_second();
    let signers = webhook.signers()?;
    let sign = |signer: &standardwebhooks::Webhook| signer.sign(id, timestamp, body.as_bytes());
    let signatures = signers.iter().map(sign).collect::<Result<Vec<_>, _>>()?;
    Ok(request
        .header(standardwebhooks::HEADER_WEBHOOK_ID, id)
        .header(standardwebhooks::HEADER_WEBHOOK_TIMESTAMP, timestamp)
        .header(standardwebhooks::HEADER_WEBHOOK_SIGNATURE, signatures.join(" ")))
}
