//! Events as the text of a stream. The newest events are encoded once for all streams.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use plant_store::{Event, EventCursor};

use crate::errors::Failure;
use crate::handlers::events::follower::ShownEvent;

/// How many events are remembered: more than happen between two pages of a stream that keeps up.
const REMEMBERED_EVENTS: usize = 4096;

/// The text of one event.
pub(super) fn event_text(event: &ShownEvent) -> Result<String, Failure> {
    let data = serde_json::to_string(event).map_err(Failure::internal)?;
    Ok(format!("id: {}\ndata: {data}\n\n", event.cursor))
}

/// The text of the newest events that streams were sent, without plants: an event has the same text for all of them.
#[derive(Debug, Default)]
pub(super) struct NewestText {
    /// In ascending order.
    events: Mutex<VecDeque<(EventCursor, String)>>,
}

impl NewestText {
    /// Appends the text of a page.
    pub(super) fn push_page(&self, text: &mut String, events: Vec<Event>) -> Result<(), Failure> {
        let Some(first) = events.first().map(Event::revision) else { return Ok(()) };
        let mut known = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if known.front().is_some_and(|(oldest, _)| first < oldest.revision) {
            // A stream that is behind shares nothing, and keeps nobody waiting.
            drop(known);
            for event in events {
                text.push_str(&event_text(&event.into())?);
            }
            return Ok(());
        }
        let place = known.partition_point(|(cursor, _)| cursor.revision < first);
        for (place, event) in (place..).zip(events) {
            let cursor = event.cursor;
            if let Some((_, event_text)) = known.get(place).filter(|(other, _)| *other == cursor) {
                text.push_str(event_text);
                continue;
            }
            let event_text = event_text(&event.into())?;
            text.push_str(&event_text);
            if known.back().is_none_or(|(last, _)| last.revision < cursor.revision) {
                known.push_back((cursor, event_text));
            }
        }
        let excess = known.len().saturating_sub(REMEMBERED_EVENTS);
        known.drain(..excess);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use plant_domain::PlantId;
    use plant_store::{EventKind, Revision};

    use super::*;

    fn event(sequence: u64, log: u64) -> Event {
        Event {
            cursor: EventCursor { revision: Revision::from(sequence), log },
            kind: EventKind::Created,
            id: PlantId::from(sequence.cast_signed()),
            at: UNIX_EPOCH,
        }
    }

    #[test]
    fn a_page_has_the_same_text_whatever_other_streams_were_sent() {
        let newest_text = NewestText::default();
        let far = REMEMBERED_EVENTS as u64 * 3;
        // In turn: overlaps, gaps, another log, more than is remembered, and what is forgotten by then.
        let pages =
            [(5, 10, 1), (8, 3, 1), (8, 20, 1), (1, 6, 1), (40, 5, 1), (24, 30, 1), (43, 9, 1)];
        let far_pages = [
            (50, 0, 1),
            (52, 9, 2),
            (20, 60, 2),
            (20, 99, 1),
            (60, far, 2),
            (70, far, 1),
            (far, 99, 2),
        ];
        for (first, length, log) in pages.into_iter().chain(far_pages) {
            let events: Vec<Event> =
                (first..first + length).map(|sequence| event(sequence, log)).collect();
            let mut text = "before".to_owned();
            newest_text.push_page(&mut text, events.clone()).expect("a text");
            let texts = events.into_iter().map(|event| event_text(&event.into()).expect("a text"));
            assert!(
                text == "before".to_owned() + &texts.collect::<String>(),
                "{first} {length} {log}"
            );
            assert!(newest_text.events.lock().expect("no panic").len() <= REMEMBERED_EVENTS);
        }
    }
}
