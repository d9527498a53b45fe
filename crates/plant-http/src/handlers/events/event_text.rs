//! Events as the text of a stream. The newest events are encoded once for all streams.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use plant_store::Event;

use crate::errors::Failure;
use crate::handlers::events::shown_event::ShownEvent;

/// How many events are remembered: more than happen between two pages of a stream that keeps up.
const REMEMBERED_EVENTS: usize = 4096;

/// The room that is reserved for one event without its plant. Most texts are a little shorter.
const EVENT_TEXT_BYTES: usize = 160;

/// Encodes one event (HTML Standard, section 9.2).
pub(super) fn encode(event: &ShownEvent) -> Result<String, Failure> {
    let data = serde_json::to_string(event).map_err(Failure::internal)?;
    Ok(format!("id: {}\ndata: {data}\n\n", event.cursor))
}

/// The text of the newest events, which is the same for all streams that do not ask for plants.
#[derive(Debug, Default)]
pub(super) struct NewestText {
    /// In ascending order of revisions. Gaps are possible: a stream may begin far ahead of the others.
    known: Mutex<VecDeque<(Event, String)>>,
}

impl NewestText {
    /// Appends the text of a page.
    pub(super) fn push_page(&self, text: &mut String, events: &[Event]) -> Result<(), Failure> {
        text.reserve(events.len() * EVENT_TEXT_BYTES);
        let shared = self.push_shared(text, events)?;
        // A stream that is behind shares nothing, and keeps no other stream waiting.
        for event in &events[shared..] {
            text.push_str(&encode(&ShownEvent::from(event.clone()))?);
        }
        Ok(())
    }

    /// Appends the events of a page up to one that is neither known nor newer than all known ones. Returns how many.
    fn push_shared(&self, text: &mut String, events: &[Event]) -> Result<usize, Failure> {
        let Some(first) = events.first() else { return Ok(0) };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.partition_point(|(event, _)| event.revision() < first.revision());
        for (count, event) in events.iter().enumerate() {
            match known.get(place + count) {
                Some((same, encoded)) if same == event => text.push_str(encoded),
                Some(_) => return Ok(count),
                None => {
                    let encoded = encode(&ShownEvent::from(event.clone()))?;
                    text.push_str(&encoded);
                    known.push_back((event.clone(), encoded));
                }
            }
        }
        let excess = known.len().saturating_sub(REMEMBERED_EVENTS);
        known.drain(..excess);
        Ok(events.len())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::time::UNIX_EPOCH;

    use plant_domain::PlantId;
    use plant_store::{EventCursor, EventKind, Revision};

    use super::*;

    /// The events with these numbers of a log. Only every third number is given out.
    fn events(numbers: Range<u64>, log: u64) -> Vec<Event> {
        let event = |number: u64| Event {
            cursor: EventCursor { revision: Revision::from(number * 3), log },
            kind: EventKind::Created,
            id: PlantId::from(number.cast_signed()),
            at: UNIX_EPOCH,
            by: None,
        };
        numbers.map(event).collect()
    }

    fn page(newest_text: &NewestText, events: &[Event]) -> String {
        let mut text = String::new();
        newest_text.push_page(&mut text, events).expect("a text");
        text
    }

    #[test]
    fn a_page_has_the_same_text_whatever_other_streams_were_sent() {
        let newest_text = NewestText::default();
        let far = REMEMBERED_EVENTS as u64 * 3;
        let overlaps = [(5..15, 1), (8..11, 1), (8..28, 1), (1..7, 1)];
        let gaps = [(40..45, 1), (24..54, 1), (30..38, 1), (43..52, 1)];
        let other_logs = [(52..61, 2), (20..80, 2), (20..120, 1)];
        let forgets = [(60..far, 2), (70..far, 1), (far..far + 99, 2)];
        for (numbers, log) in overlaps.into_iter().chain(gaps).chain(other_logs).chain(forgets) {
            let events = events(numbers.clone(), log);
            let texts = events.iter().map(|event| encode(&ShownEvent::from(event.clone())));
            let texts: String = texts.collect::<Result<_, _>>().expect("a text");
            assert!(page(&newest_text, &events) == texts, "{numbers:?} of {log}");
            let known = newest_text.known.lock().expect("no panic");
            assert!(known.len() <= REMEMBERED_EVENTS);
            assert!(known.iter().map(|(event, _)| event.revision()).is_sorted());
        }
    }

    #[test]
    fn streams_that_keep_up_share_the_text_of_the_newest_events() {
        let newest_text = NewestText::default();
        let mark_known = || {
            for (_, text) in newest_text.known.lock().expect("no panic").iter_mut() {
                text.insert(0, '!');
            }
        };
        let shared = |events: &[Event]| page(&newest_text, events).matches('!').count();
        // A stream begins far behind, and another one with the newest event.
        assert_eq!(shared(&events(0..10, 1)), 0);
        assert_eq!(shared(&events(1000..1001, 1)), 0);
        mark_known();
        assert_eq!(shared(&events(5..15, 1)), 5);
        assert_eq!(shared(&events(10..1001, 1)), 0);
        assert_eq!(shared(&events(1000..1010, 1)), 1);
        assert_eq!(shared(&events(1000..1010, 2)), 0);
        mark_known();
        assert_eq!(shared(&events(1005..1020, 1)), 5);
    }
}
